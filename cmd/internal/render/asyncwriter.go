package render

import "io"

// An asyncWriter writes one text while the next one is made. Each write waits for
// the previous one.
type asyncWriter struct {
	texts   chan []byte
	written chan written // holds one whenever nothing is being written
}

// written is a text that was written. Its room is free again.
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

// write starts to write text, and returns room for the next text. If the previous
// write failed, it returns that error and does not write text.
func (w *asyncWriter) write(text []byte) (room []byte, err error) {
	last := <-w.written
	if last.err != nil {
		w.written <- last
		return text[:0], last.err
	}
	w.texts <- text
	return last.room, nil
}

// end returns when everything is written. Nothing may be written after it.
func (w *asyncWriter) end() error {
	last := <-w.written
	close(w.texts)
	return last.err
}
