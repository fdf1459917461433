package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A side is one of the programs that a row compares.
type side struct {
	name string
	do   func() error // the timed call
	// timed replaces do if the call measures its own time.
	timed func() (time.Duration, error)
	after func() error // an untimed call after each, or nil
	times int          // calls in a turn; 0 means one
}

// compare lets the sides take turns for this many rounds, after a first one that
// does not count, and adds the row to the report. The first side is podagent. Every
// other round runs in reverse order, because one side's leftovers, such as a busy
// node, slow down the next side.
func compare(b *testing.B, group, what string, rounds int, sides ...side) *row {
	b.Helper()
	if !calm() {
		b.Logf("%s, %s: the machine was not calm", group, what)
	}
	times := make([][]time.Duration, len(sides))
	for round := range rounds + 1 {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			for range cmp.Or(sides[i].times, 1) {
				took, err := sides[i].once()
				if err != nil {
					b.Fatalf("%s, %s: %s: %v", group, what, sides[i].name, err)
				}
				if round > 0 {
					times[i] = append(times[i], took)
				}
			}
		}
	}
	r := newRow(group, what, "ms", figureOf(sides[0].name, times[0]))
	for i, s := range sides[1:] {
		r.beside(figureOf(s.name, times[i+1]))
	}
	return publish(b, r)
}

// A row begins when the processors have idled for this share of a moment. On a
// machine that never becomes calm, it begins at the limit.
const (
	calmShare  = 0.9
	calmMoment = 500 * time.Millisecond
	calmLimit  = 30 * time.Second
)

// calm waits until the machine has finished the leftovers of earlier rows, such as
// writes and ending pods, so that they do not slow down this row. It reports
// whether the machine is calm.
func calm() bool {
	syscall.Sync()
	for begun := time.Now(); time.Since(begun) < calmLimit; {
		idle, all := processorTimes()
		time.Sleep(calmMoment)
		laterIdle, laterAll := processorTimes()
		if float64(laterIdle-idle) >= calmShare*float64(laterAll-all) {
			return true
		}
	}
	return false
}

// processorTimes returns how long the processors have been idle, and their total
// time, in ticks. In the first line of /proc/stat (proc_stat(5)) these are the
// fourth number and the sum of the first eight; the later numbers are included in
// those. Other systems have no such file.
func processorTimes() (idle, all int64) {
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line) {
		if i > 8 {
			break
		}
		ticks, _ := strconv.ParseInt(field, 10, 64) // the first field is a name
		all += ticks
		if i == 4 {
			idle = ticks
		}
	}
	return idle, all
}

func (s *side) once() (took time.Duration, err error) {
	if s.timed != nil {
		took, err = s.timed()
	} else {
		begun := time.Now()
		err = s.do()
		took = time.Since(begun)
	}
	if err == nil && s.after != nil {
		err = s.after()
	}
	return took, err
}

// figureOf returns the median and the limits of the middle half, in milliseconds.
func figureOf(name string, times []time.Duration) figure {
	slices.Sort(times)
	ms := func(i int) float64 { return float64(times[i]) / float64(time.Millisecond) }
	quarter := len(times) / 4
	median := (ms((len(times)-1)/2) + ms(len(times)/2)) / 2
	return figure{name, median, ms(quarter), ms(len(times) - 1 - quarter), len(times)}
}

// publish adds a row to the report.
func publish(b *testing.B, r *row) *row {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the time of all sides together means nothing
	fmt.Println(r)
	results.Rows = append(results.Rows, r)
	return r
}
