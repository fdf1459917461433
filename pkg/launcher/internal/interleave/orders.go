package interleave

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// All runs a test in all orders of its operations' calls that can make a difference, in so many
// runs at most. It returns how many orders these were, and whether the runs were enough. The
// test makes its world anew, with the same names, adds its operations, runs them, and checks the
// outcome.
//
// It changes the order of two calls only where that can matter: dynamic partial-order reduction
// (C. Flanagan and P. Godefroid, POPL 2005) with sleep sets.
func All(t *testing.T, limit int, test func(*Schedule)) (orders int, enough bool) {
	t.Helper()
	s := &search{}
	defer func() {
		if s.lost > 0 {
			t.Logf("%d runs were not as before, so some orders were not tried", s.lost)
		}
	}()
	for range limit {
		s.begin()
		test(newSchedule(s.choose))
		if !s.over {
			orders++
		}
		if t.Failed() {
			t.Logf("in the order %v", s.order)
			return orders, true // more would say no more
		}
		if !s.another() {
			return orders, true
		}
	}
	return orders, false
}

// Random runs a test in a random order: see [All].
func Random(t *testing.T, test func(*Schedule)) {
	t.Helper()
	var order []Call
	test(newSchedule(func(calls []Call) Call {
		c := calls[rand.IntN(len(calls))]
		order = append(order, c)
		return c
	}))
	if t.Failed() {
		t.Logf("in the order %v", order)
	}
}

// search goes through the tree of choices, depth first.
type search struct {
	nodes []*node
	depth int
	over  bool // the rest of this order makes no difference, or is not as before
	lost  int  // how many runs were not as before
	order []Call
}

// node is a choice between calls.
type node struct {
	calls  []Call
	chosen Call
	sleep  []Call // those whose orders other branches have
	due    []Call // those that must be chosen here, too, since their order matters
}

func (s *search) begin() { s.depth, s.over, s.order = 0, false, nil }

func (s *search) choose(calls []Call) Call {
	c := s.next(calls)
	s.order = append(s.order, c)
	return c
}

func (s *search) next(calls []Call) Call {
	if s.over {
		return calls[0]
	}
	if s.depth < len(s.nodes) {
		s.depth++
		if n := s.nodes[s.depth-1]; slices.Contains(calls, n.chosen) {
			return n.chosen
		}
		s.over = true
		s.lost++
		return calls[0]
	}
	n := &node{calls: calls, sleep: s.asleep()}
	for _, c := range calls {
		if !slices.Contains(n.sleep, c) {
			n.chosen = c
			s.nodes = append(s.nodes, n)
			s.depth++
			return c
		}
	}
	s.over = true
	return calls[0]
}

// asleep returns the calls that sleep after the last choice.
func (s *search) asleep() (sleep []Call) {
	if len(s.nodes) == 0 {
		return nil
	}
	last := s.nodes[len(s.nodes)-1]
	for _, c := range last.sleep {
		if c.Op != last.chosen.Op && c.commutes(last.chosen) {
			sleep = append(sleep, c)
		}
	}
	return sleep
}

// another prepares the next order, if there is one.
func (s *search) another() bool {
	s.findRaces()
	for len(s.nodes) > 0 {
		last := s.nodes[len(s.nodes)-1]
		last.sleep = append(last.sleep, last.chosen)
		for _, c := range last.due {
			if !slices.Contains(last.sleep, c) {
				last.chosen = c
				return true
			}
		}
		s.nodes = s.nodes[:len(s.nodes)-1]
	}
	return false
}

// findRaces makes those calls due that came after one with which they do not commute, and
// that nothing else kept from coming first.
func (s *search) findRaces() {
	past := make([][]bool, len(s.nodes)) // of each call, the calls that must come before it
	latest := map[int]int{}              // of each operation, its latest call
	for i, n := range s.nodes {
		past[i] = make([]bool, len(s.nodes))
		before, began := latest[n.chosen.Op]
		for j := i - 1; j >= 0; j-- {
			other := s.nodes[j].chosen
			if other.Op == n.chosen.Op || other.commutes(n.chosen) {
				continue
			}
			if !began || !past[before][j] {
				s.nodes[j].makeDue(n.chosen.Op)
				break
			}
		}
		for j := range i {
			if c := s.nodes[j].chosen; c.Op == n.chosen.Op || !c.commutes(n.chosen) {
				for k := range past[i] {
					past[i][k] = past[i][k] || past[j][k]
				}
				past[i][j] = true
			}
		}
		latest[n.chosen.Op] = i
	}
}

// makeDue makes the operation's call due, or all if it made none then.
func (n *node) makeDue(op int) {
	for _, c := range n.calls {
		if c.Op == op {
			n.due = append(n.due, c)
			return
		}
	}
	n.due = append(n.due, n.calls...)
}
