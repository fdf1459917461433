package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// report says something now and then, until stop, which waits for it.
func (c *cluster) report(every time.Duration, line func() string) (stop func()) {
	began, ended := time.Now(), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				c.say("  %s, after %v", line(), time.Since(began).Round(time.Second))
			}
		}
	})
	return func() { close(ended); group.Wait() }
}

// progress tells how far a build is. It is the standard error of the go command,
// with -v, and passes on what is no progress.
type progress struct {
	rest io.Writer // gets the other lines
	done string    // the directory that gets the programs

	mu         sync.Mutex
	partial    []byte          // a line that has not ended
	downloaded int             // modules
	waiting    map[string]bool // the packages that were not compiled yet, once known
	packages   int             // how many there are
	programs   int
}

// expect reads from lines of a package's name and path what is to be built.
func (p *progress) expect(list string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = map[string]bool{}
	for line := range strings.Lines(list) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		p.waiting[path] = true
		if name == "main" {
			p.programs++
		}
	}
	p.packages = len(p.waiting)
}

// Write takes the output of the go command.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, b...)
	for {
		line, rest, ok := bytes.Cut(p.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		p.partial = rest
		if err := p.line(string(line)); err != nil {
			return 0, err
		}
	}
}

func (p *progress) line(line string) error {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.downloaded++
	case p.waiting[line]:
		delete(p.waiting, line)
	default:
		_, err := fmt.Fprintln(p.rest, line)
		return err
	}
	return nil
}

// String says how far the build is. What the build cache has is never compiled, so
// that the number of packages is the most there may be.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	modules := ""
	if p.downloaded > 0 {
		modules = fmt.Sprintf("%d modules downloaded, ", p.downloaded)
	}
	if p.waiting == nil {
		return modules + "finding out what is to be compiled"
	}
	linked, _ := os.ReadDir(p.done) // none, if it is not there
	return fmt.Sprintf("%s%d of at most %d packages compiled, %d of %d programs done",
		modules, p.packages-len(p.waiting), p.packages, len(linked), p.programs)
}
