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

// report prints a message now and then until stop is called. stop waits for it to
// end.
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

// progress follows a build. It is the standard error of "go build -v", and passes
// on other lines.
type progress struct {
	rest io.Writer // receives the other lines
	done string    // the directory of the finished programs

	mu         sync.Mutex
	partial    []byte          // an incomplete line
	downloaded int             // number of modules
	waiting    map[string]bool // packages that are not compiled yet, once known
	packages   int             // number of all packages
	programs   int
}

// expect learns what will be built, from lines with a package's name and path.
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

// Write takes output of the go command.
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

// String describes the progress. Packages in the build cache are never compiled, so
// the number of packages is an upper bound.
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
	linked, _ := os.ReadDir(p.done) // none if the directory does not exist
	return fmt.Sprintf("%s%d of at most %d packages compiled, %d of %d programs done",
		modules, p.packages-len(p.waiting), p.packages, len(linked), p.programs)
}
