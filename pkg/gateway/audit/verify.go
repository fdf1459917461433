package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Chain is what a [Verifier] has found of the log of a process.
type Chain struct {
	ID   string `json:"chain"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// From and To are the times of its first line and its last.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Lines is how many lines are good. Those after the first Signed are not signed: who could write
	// the file could have written them.
	Lines  uint64 `json:"lines"`
	Signed uint64 `json:"signed"`
	// State is how it ended.
	State State `json:"state"`
	// Torn is how many lines are there in part: the disk was full, or the machine went down. If the
	// chain goes on, nothing is missing.
	Torn int `json:"torn,omitempty"`
	// Problem is where the log is not as it was written, and why it cannot be; empty if it is.
	Problem string `json:"problem,omitempty"`
	// Open are the acts that have begun and not ended, the oldest first.
	Open []Open `json:"open,omitempty"`

	chain  chain
	key    ed25519.PublicKey
	open   map[string]Open
	unsure time.Time // of the first line that is not signed
}

// State is how a chain ended.
type State string

const (
	// Closed is the state of a chain that has its last line.
	Closed State = "closed"
	// Running is that of one whose process may run.
	Running State = "running"
	// Killed is that of one which was to be signed again and was not, so that its process has ended, or
	// the end of the log is missing. One that had nothing to sign is Running.
	Killed State = "killed"
)

// Open is an act that has begun and not ended.
type Open struct {
	Line      uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Key       string    `json:"key,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Sandbox   string    `json:"sandbox,omitempty"`
}

// Verifier checks logs: that no line was changed, removed, added or moved, as far as they are signed.
// It cannot know of a log of which all files are missing, and of one whose end is missing it knows
// only that it was not closed.
type Verifier struct {
	// Keys are the public halves of the keys that may have signed.
	Keys []ed25519.PublicKey

	chains []*Chain
	byID   map[string]*Chain
}

// Verify checks the logs in files, which come in any order: each as a whole, or all those of its files
// that there are. It returns the chains that are in them. The error is that of reading; what is wrong
// with a log is its Problem.
func Verify(keys []ed25519.PublicKey, files []string) ([]*Chain, error) {
	ordered, err := inOrder(files)
	if err != nil {
		return nil, err
	}
	v := &Verifier{Keys: keys}
	for _, name := range ordered {
		if err := v.readFile(name); err != nil {
			return nil, err
		}
	}
	return v.Chains(), nil
}

// inOrder returns the files of each chain in the order in which they were written.
func inOrder(files []string) ([]string, error) {
	type place struct {
		name, chain string
		seq         uint64
	}
	var places []place
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		text, err := readLine(bufio.NewReader(f))
		f.Close()
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLong) {
			return nil, err
		}
		var first parsed
		_ = json.Unmarshal(text, &first) // it is found out when it is read as a whole
		places = append(places, place{name, first.Chain, first.Seq})
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.seq, b.seq))
	})
	ordered := make([]string, len(places))
	for i, p := range places {
		ordered[i] = p.name
	}
	return ordered, nil
}

func (v *Verifier) readFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return v.Read(name, f)
}

// Read checks a file of a log, the first one of a chain first. A file can have several chains, one after
// the other. It holds one line at a time.
func (v *Verifier) Read(name string, r io.Reader) error {
	file := &reading{Verifier: v, name: name}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := readLine(lines)
		file.line++
		switch {
		case errors.Is(err, errLong):
			file.torn()
		case err == nil:
			file.check(text)
		case errors.Is(err, io.EOF):
			if len(text) > 0 {
				file.last(text)
			}
			if file.of == nil && file.line > 1 { // a process that was killed early leaves an empty file
				file.stray("there is no chain in the file")
			}
			return nil
		default:
			return err
		}
	}
}

// Chains returns what was found.
func (v *Verifier) Chains() []*Chain {
	for _, c := range v.chains {
		c.Open = nil
		for _, o := range c.open {
			c.Open = append(c.Open, o)
		}
		slices.SortFunc(c.Open, func(a, b Open) int { return cmp.Compare(a.Line, b.Line) })
		if c.State != Closed && !c.unsure.IsZero() && time.Since(c.unsure) > 2*signInterval {
			c.State = Killed
		}
	}
	return v.chains
}

// parsed is a line that is read.
type parsed struct {
	Seq  uint64 `json:"seq"`
	Prev string `json:"prev"`
	line
}

// reading is a file that is read.
type reading struct {
	*Verifier
	name   string
	line   int    // its number in the file
	of     *Chain // nil before the first line
	broken bool   // nothing is believed before another chain starts
	gap    bool   // the last line was torn, so a start must come
}

// problem notes what is wrong with the chain that is read.
func (r *reading) problem(format string, args ...any) {
	if r.of == nil {
		r.stray(format, args...)
		return
	}
	r.broken = true
	if r.of.Problem == "" {
		r.of.Problem = r.place() + fmt.Sprintf(format, args...)
	}
}

func (r *reading) place() string { return fmt.Sprintf("%s:%d: ", r.name, r.line) }

// stray notes what is wrong with lines of no chain.
func (r *reading) stray(format string, args ...any) {
	if r.broken {
		return
	}
	r.broken = true
	r.of = &Chain{State: Running, Problem: r.place() + fmt.Sprintf(format, args...)}
	r.chains = append(r.chains, r.of)
}

// torn notes a line that is there in part.
func (r *reading) torn() {
	if r.of != nil && !r.gap {
		r.of.Torn++
	}
	r.gap = true
}

// last checks a line without an end. It is whole if the process ended, or the disk was full, just then.
func (r *reading) last(text []byte) {
	if json.Valid(text) {
		r.check(text)
		return
	}
	r.torn()
}

func (r *reading) check(text []byte) {
	var l parsed
	switch err := json.Unmarshal(text, &l); {
	case err != nil:
		r.torn()
	case l.Type == start:
		r.start(&l, text)
	case r.broken:
	case r.of == nil:
		r.stray("a line comes before the first of its chain, which the end of another file may have")
	case r.gap:
		r.problem("the line before it is damaged")
	default:
		r.follow(&l, text)
	}
}

// start checks the first line of a chain, or one with which it goes on.
func (r *reading) start(l *parsed, text []byte) {
	known, key := r.byID[l.Chain], r.signer(text)
	switch {
	case key == nil:
		if !r.broken {
			r.of = known
			r.problem("a start is not signed by a key that was given")
		}
		return
	case known == nil && l.Seq != 0:
		r.of, r.broken = nil, false
		r.stray("the chain %s begins with line %d: the file before it is missing", l.Chain, l.Seq)
		return
	case known == nil:
		known = &Chain{ID: l.Chain, Host: l.Host, PID: l.PID, From: l.Time, State: Running, key: key, open: map[string]Open{}}
		r.chains = append(r.chains, known)
		if r.byID == nil {
			r.byID = map[string]*Chain{}
		}
		r.byID[l.Chain] = known
	}
	if r.gap && r.of == nil {
		known.Torn++ // before the first line of the file
	}
	r.of, r.gap, r.broken = known, false, known.Problem != ""
	if !r.broken {
		r.follow(l, text)
	}
}

// signer returns the key that has signed a line.
func (r *reading) signer(text []byte) ed25519.PublicKey {
	for _, key := range r.Keys {
		if isSigned(text, key) {
			return key
		}
	}
	return nil
}

// follow checks that a line follows the one before it.
func (r *reading) follow(l *parsed, text []byte) {
	c := r.of
	switch {
	case c.State == Closed:
		r.problem("a line comes after the last of its chain")
	case l.Seq < c.chain.next:
		r.problem("line %d comes again: a file was given twice, or lines were moved", l.Seq)
	case l.Seq > c.chain.next:
		r.problem("lines %d to %d are missing", c.chain.next, l.Seq-1)
	case l.Prev != c.chain.prev():
		r.problem("line %d is not the one that was written there, or this one is not", int64(l.Seq)-1)
	case isSignedType(l.Type) && !isSigned(text, c.key):
		r.problem("the signature is not right")
	default:
		r.take(l, text)
	}
}

// take adds a line to its chain.
func (r *reading) take(l *parsed, text []byte) {
	c := r.of
	switch l.Type {
	case begin:
		if _, twice := c.open[l.ID]; twice || l.ID == "" {
			r.problem("the act %q begins twice", l.ID)
			return
		}
		if len(c.open) == openLimit {
			r.problem("more than %d acts are open", openLimit)
			return
		}
		c.open[l.ID] = Open{l.Seq, l.Time, l.ID, l.Tenant, l.Key, l.Operation, l.Sandbox}
	case end:
		if _, begun := c.open[l.ID]; !begun {
			r.problem("the act %q ends without having begun", l.ID)
			return
		}
		delete(c.open, l.ID)
	case closed:
		c.State = Closed
	case start, sign, try:
	default:
		r.problem("there is no type %q of lines", l.Type)
		return
	}
	c.To, c.Lines = l.Time, c.Lines+1
	c.chain.next, c.chain.head = l.Seq+1, sha256.Sum256(text)
	switch {
	case isSignedType(l.Type):
		c.Signed, c.unsure = c.Lines, time.Time{}
	case c.unsure.IsZero():
		c.unsure = l.Time
	}
}

var errLong = errors.New("the line is too long")

// readLine reads a line, without its end. One that is too long is passed over. At the end of the file
// there may be a line without an end, together with io.EOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > lineLimit; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLong
		default:
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}
