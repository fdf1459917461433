package render

import "io"

// An asyncWriter writes while more text is made: one text at a time, and the
// next one waits for it.
type asyncWriter struct {
	texts   chan []byte
	written chan written // one is there whenever nothing is being written
}

// written is a text that was written, whose room is free again.
type written struct {
	room []byte
	err  error
}

func newAsyncWriter(out io.Writer) *asyncWriter {
	w := &asyncWriter{texts: make(chan []byte), written: make(chan written, 1)}
	w.written <- written{}
	go func() {
		for text := range w.texts {
			_, err := out.Write(text)
			w.written <- written{text[:0], err}
		}
	}()
	return w
}

// write has text written, and returns room for the next one, or the error of the
// one before: then this one is not written.
func (w *asyncWriter) write(text []byte) (room []byte, err error) {
	last := <-w.written
	if last.err != nil {
		w.written <- last
		return text[:0], last.err
	}
	w.texts <- text
	return last.room, nil
}

// end returns when all is written. Nothing is written after it.
func (w *asyncWriter) end() error {
	last := <-w.written
	close(w.texts)
	return last.err
}
