package proc

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process's output and end are the same whether Start waits for its end, waits a
// moment, or leaves the wait to others.
func TestBriefCommandsEndAsOthersDo(t *testing.T) {
	scripts := map[string]struct {
		script         string
		stdout, stderr int
		code           int
		open           bool
	}{
		"silent":           {script: "exit 3", code: 3},
		"both outputs":     {script: "echo out; echo error >&2", stdout: 4, stderr: 6},
		"piece by piece":   {script: "for i in 1 2 3; do echo $i; sleep 0.01; done", stdout: 6},
		"more than a head": {script: "head -c 300000 /dev/zero", stdout: 300_000},
		"closed, then on":  {script: "echo out; exec >&- 2>&-; sleep 0.02; exit 4", stdout: 4, code: 4},
		"a descendant's":   {script: "echo out; sleep 300 & exit 5", stdout: 4, code: 5, open: true},
		"ended by itself":  {script: "echo out; kill -9 $$", stdout: 4, code: 137},
	}
	overEach(t, func(t *testing.T, newManager makeManager) {
		for how, brief := range map[string]time.Duration{"to the end": hung, "a moment": time.Millisecond, "not at all": 0, "by others": hung} {
			m := newManager(t, func(l *limits) { l.shortWait, l.drain = brief, 50*time.Millisecond })
			if how == "by others" {
				m.waiters = make(chan struct{}) // never any room
			}
			for name, want := range scripts {
				t.Run(how+"/"+name, func(t *testing.T) {
					p := start(t, m, shell(t, want.script))
					attended := how == "to the end" && !want.open && want.stdout < 300_000
					for _, pump := range p.out.pumps {
						if attended && (!p.Ended() || pump.source.file != nil) {
							t.Error("Start left the process to others")
						}
					}
					r := finish(t, p)
					if r.stdout.Len() != want.stdout || r.stderr.Len() != want.stderr ||
						r.status.Code != want.code || r.status.OutputOpen != want.open {
						t.Errorf("got %d and %d bytes, %+v", r.stdout.Len(), r.stderr.Len(), r.status)
					}
				})
			}
		}
	})
}

// A reader may attach while Start still waits for the process.
func TestBriefCommandCanBeReadDuringStart(t *testing.T) {
	m := newManager(t, func(l *limits) { l.shortWait = hung })
	spec, gate := shell(t, ""), fifo(t)
	spec.Argv[2] = "echo first; read line < " + gate + "; echo second"
	started := make(chan *Process, 1)
	go func() {
		p, _, _ := m.Start(t.Context(), spec)
		started <- p
	}()
	var p *Process
	eventually(t, "the start", func() bool {
		p, _ = m.Get(t.Context(), spec.ID)
		return p != nil
	})
	var got bytes.Buffer
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Len() == 0 {
			send(t, gate)
		}
		got.Write(ev.Data)
	}
	if got.String() != "first\nsecond\n" || <-started != p {
		t.Errorf("got %q", &got)
	}
}

// Ending the process from elsewhere also ends the wait.
func TestBriefCommandCanBeEndedDuringStart(t *testing.T) {
	m := newManager(t, func(l *limits) { l.shortWait = hung })
	spec := shell(t, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
	started := make(chan *Process, 1)
	go func() {
		p, _, _ := m.Start(t.Context(), spec)
		started <- p
	}()
	eventually(t, "the trap", func() bool {
		p, err := m.Get(t.Context(), spec.ID)
		return err == nil && p.info().Stdout > 0
	})
	p, err := m.Get(t.Context(), spec.ID)
	if err == nil {
		err = p.Signal(unix.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := finish(t, <-started); r.status.Code != 7 {
		t.Errorf("got %+v", r.status)
	}
	spec = shell(t, "sleep 60")
	spec.Timeout = 20 * time.Millisecond
	if r := run(t, m, spec); r.status.Reason != TimedOut {
		t.Errorf("got %+v", r.status)
	}
}

// No descriptor is left, whichever way the wait ends.
func TestBriefCommandsLeaveNoDescriptor(t *testing.T) {
	m := newManager(t)
	run(t, m, shell(t, "true"))
	before := countDescriptors(t)
	for range 50 {
		run(t, m, shell(t, "true"))
		run(t, m, shell(t, "sleep 0.005"))
	}
	eventually(t, "closing all", func() bool { return countDescriptors(t) <= before })
}
