package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/cmd/podagent/internal/egress"
	"github.com/podagent/podagent/internal/delay"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// A network policy may take policyTime to be in force after its pod has started. Meanwhile the
// agent looks each policyPause. While a far end serves, it looks again after each lookPause: policies
// are deleted by people, and each look is a handful of packets.
const (
	policyTime  = 30 * time.Second
	policyPause = 250 * time.Millisecond
	lookPause   = 30 * time.Second
)

// wayOut is the sandbox's way out.
type wayOut struct {
	config wayout.Config
	relays checkout.Relays // which commands behind a fence must reach, too

	mu      sync.Mutex
	proxy   *egress.Proxy // nil until there is one
	level   wayout.Level
	missing error // why it is not a stronger one
}

// newWayOut decides how processes may leave the sandbox, and returns the thread that starts
// them. Code in the sandbox must run on no other thread.
func (c *Config) newWayOut(ctx context.Context) (*wayOut, *confine.Thread, error) {
	w := &wayOut{config: c.Egress}
	fence, err := w.prepare(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	thread, missing, err := c.confine(fence)
	if err != nil {
		w.close()
		return nil, nil, err
	}
	w.fenced(fence, thread, missing)
	if err := w.check(); err != nil {
		w.close()
		sayWhy(c.Log, c.TerminationLog, err.Error())
		return nil, nil, err
	}
	if w.level != wayout.Open {
		c.Log.Info("processes have a way out", "port", w.proxy.Port(), "level", w.level, "missing", w.missing)
	}
	return w, thread, nil
}

// prepare opens the proxy and looks at the network, unless the way out is off. It returns the fence
// that processes need, if any.
func (w *wayOut) prepare(ctx context.Context, c *Config) (*confine.Fence, error) {
	mode := w.config.Mode
	if mode == "" || mode == wayout.Off {
		return nil, nil
	}
	proxy, err := w.open(c)
	if err != nil {
		return nil, err
	}
	w.level = wayout.Advisory
	if mode == wayout.Auto || mode == wayout.Mode(wayout.Network) {
		if w.missing = w.leadsNowhere(ctx); w.missing == nil {
			w.level = wayout.Network
			return nil, nil
		}
	}
	if mode == wayout.Mode(wayout.Advisory) || mode == wayout.Mode(wayout.Network) {
		return nil, nil
	}
	relays, err := w.relays.Listen()
	if err != nil {
		return nil, err
	}
	return &confine.Fence{Ports: append([]uint16{uint16(proxy.Port()), uint16(relays.Port)}, w.config.Ports...)}, nil
}

// leadsNowhere looks whether the network leads nowhere; where that is required, again until a policy
// is surely in force.
func (w *wayOut) leadsNowhere(ctx context.Context) error {
	until := time.Now()
	if w.config.Mode == wayout.Mode(wayout.Network) || w.config.Require == wayout.Network {
		until = until.Add(policyTime)
	}
	for {
		err := egress.LeadsNowhere(ctx)
		if err == nil || errors.Is(err, egress.ErrUnknown) || time.Now().After(until) || delay.For(ctx, policyPause) != nil {
			return err
		}
	}
}

// fenced notes what came of a fence.
func (w *wayOut) fenced(fence *confine.Fence, thread *confine.Thread, missing error) {
	switch {
	case fence == nil:
	case thread.Has(confine.Network):
		w.level = wayout.Landlock
	default:
		w.missing = errors.Join(w.missing, missing)
	}
}

// check returns an error if the level is not what it must be.
func (w *wayOut) check() error {
	want := w.config.Require
	if named := wayout.Level(w.config.Mode); named.AtLeast(want) { // neither off nor auto is one
		want = named
	}
	if w.level.AtLeast(want) {
		return nil
	}
	return fmt.Errorf("%w: the way out must be of the level %s, but is only %s: %s", ErrWayOut, want, w.level, oneLine(cmp.Or(w.missing, errNotAsked)))
}

// oneLine returns the text of errors that were joined on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// ErrWayOut ends an agent whose processes could leave the sandbox by more ways than they may.
var ErrWayOut = errors.New("processes could leave the sandbox")

// errNotAsked says why a level is no stronger.
var errNotAsked = errors.New("the agent was not told to look for a stronger one")

// open returns the proxy, which begins to listen when it is first needed.
func (w *wayOut) open(c *Config) (*egress.Proxy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proxy != nil {
		return w.proxy, nil
	}
	p, err := egress.Listen(c.Log)
	if err != nil {
		return nil, fmt.Errorf("cannot open the proxy of the way out: %w", err)
	}
	w.proxy, w.level = p, wayout.Advisory
	return p, nil
}

// info says how processes can leave the sandbox.
func (w *wayOut) info() *pb.EgressInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proxy == nil {
		return nil
	}
	info := &pb.EgressInfo{Level: string(w.level), Port: uint32(w.proxy.Port()), Served: w.proxy.Served()}
	if w.missing != nil {
		info.Missing = oneLine(w.missing)
	}
	return info
}

// close ends the proxy.
func (w *wayOut) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.relays.Close()
	if w.proxy != nil {
		w.proxy.Close()
	}
}

// lookAgain notes whether the network still leads nowhere, if that was its level. The error says that
// it does not, and must.
func (w *wayOut) lookAgain(ctx context.Context) error {
	if w.levelNow() != wayout.Network {
		return nil
	}
	err := egress.LeadsNowhere(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.level, w.missing = wayout.Advisory, err
	return w.check()
}

func (w *wayOut) levelNow() wayout.Level {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.level
}

// adopt gives commands that start from now on the variables of the proxy, and of the far end that
// serves.
func (a *Agent) adopt(proxy *egress.Proxy, env []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.farEnds++
	a.egressEnv = append(a.wayOut.proxyEnv(proxy), env...)
	a.setEnv(a.configured)
}

// left takes the variables of a far end from commands that start from now on, if no other serves:
// what they name may be gone with it. Only with a far end that left for good it does so at once.
func (a *Agent) left(proxy *egress.Proxy, forGood bool) {
	wait := egress.Patience
	if forGood {
		wait = 0
	}
	a.mu.Lock()
	a.farEnds++
	now := a.farEnds
	a.mu.Unlock()
	time.AfterFunc(wait, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !proxy.Served() && a.farEnds == now { // else a later gap has its own time
			a.egressEnv = a.wayOut.env()
			a.setEnv(a.configured)
		}
	})
}

// env are the variables that processes get while there is no far end.
func (w *wayOut) env() []string {
	if mode := w.config.Mode; mode == "" || mode == wayout.Off {
		return nil
	}
	return w.proxyEnv(w.proxy)
}

// noNames has programs wait a second for a name, and not up to a minute, where the network leads nowhere, and so
// to no server of names (resolv.conf(5)). A network that refuses with an answer often leaves the answer out,
// since the kernel limits them. Where there is a way out, more patience serves programs.
const noNames = "RES_OPTIONS=timeout:1 attempts:1"

// proxyEnv are the variables by which programs find the proxy, and what serves them at the level. Programs
// that cannot speak SOCKS fail if ALL_PROXY names it so. Node reads them from 22.21 and 24.5 on.
func (w *wayOut) proxyEnv(p *egress.Proxy) []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(p.Port())
	const direct = "localhost,127.0.0.1,::1"
	env := []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy, "NO_PROXY=" + direct,
		"http_proxy=" + proxy, "https_proxy=" + proxy, "all_proxy=" + proxy, "no_proxy=" + direct,
		"NODE_USE_ENV_PROXY=1",
	}
	if w.levelNow() == wayout.Network {
		env = append(env, noNames)
	}
	return env
}
