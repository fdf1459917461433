package gateway

import (
	"net/http"
	"time"
)

// Proxies close a connection on which nothing comes for a minute or so, and a command may be silent, or a
// search find nothing, for longer. So answers in JSON lines have empty lines then.

// linesDoc says so of an operation.
const linesDoc = "While there is nothing to say, an empty line comes now and then, which means nothing. "

// keepLines adds empty lines to an answer in lines while it is silent, until stop returns. An answer that
// has not begun, and may still become an error, begins by that.
func (c *rawCall) keepLines() (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	c.said = make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-c.said:
			case <-time.After(c.silence):
				c.lining.Lock()
				err := c.emptyLine()
				c.lining.Unlock()
				if err != nil { // the caller has gone, which the call learns, too
					return
				}
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// beginLines begins an answer in lines, if it has not begun, and sends its headers.
func (c *rawCall) beginLines() error {
	c.lining.Lock()
	defer c.lining.Unlock()
	if !c.began {
		c.begin(linesType)
	}
	return http.NewResponseController(c.w).Flush()
}

func (c *rawCall) emptyLine() error {
	if !c.began {
		c.begin(linesType)
	}
	if _, err := c.w.Write([]byte("\n")); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}
