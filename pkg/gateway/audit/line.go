package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

// The types of lines.
const (
	start  = "start" // the first of a chain and of a file; signed
	begin  = "begin" // an act is about to take place
	end    = "end"   // an act has been answered
	sign   = "sign"  // signs what comes before it
	closed = "close" // the last of a chain; signed
	try    = "try"   // a sandbox has tried to reach a host, or several times so
)

// line is a line of a log, but for what chains it to the others: that comes first and last in it.
type line struct {
	Type string    `json:"type"`
	Time time.Time `json:"time"`

	// Of a start.
	Chain     string `json:"chain,omitempty"`
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	PublicKey []byte `json:"public_key,omitempty"`

	// Of an act.
	ID        string   `json:"id,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	Key       string   `json:"key,omitempty"`
	Operation string   `json:"operation,omitempty"`
	Sandbox   string   `json:"sandbox,omitempty"`
	ExecID    string   `json:"exec_id,omitempty"`
	Args      []string `json:"args,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Port      int      `json:"port,omitempty"`
	Method    string   `json:"method,omitempty"`

	// Of its end.
	Status int     `json:"status,omitempty"`
	Class  string  `json:"class,omitempty"`
	Exit   *int    `json:"exit,omitempty"`
	In     int64   `json:"in_bytes,omitempty"`
	Out    int64   `json:"out_bytes,omitempty"`
	Took   float64 `json:"ms,omitempty"`

	// Of a try, beside its tenant, sandbox and port.
	Verdict  string `json:"verdict,omitempty"`
	Try      uint64 `json:"try,omitempty"` // the same in all lines about one try of a sandbox
	To       string `json:"to,omitempty"`  // the host
	Address  string `json:"address,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Secret   string `json:"credential,omitempty"` // its name
	Count    int    `json:"count,omitempty"`      // how many tries, if there are several
}

func begun(a gateway.Act) line {
	return line{
		Type: begin, Time: a.At.UTC(), ID: a.ID, Tenant: a.Tenant, Key: a.Key, Operation: a.Operation, Sandbox: a.Sandbox,
		ExecID: a.ExecID, Args: a.Args, Paths: a.Paths, Port: a.Port, Method: a.Method,
	}
}

// ended has of the act what finds it, and what may have become known since it began.
func ended(a gateway.Act, o gateway.Outcome) line {
	return line{
		Type: end, Time: time.Now().UTC(), ID: a.ID, Tenant: a.Tenant, Key: a.Key, Operation: a.Operation, Sandbox: a.Sandbox,
		Status: o.Status, Class: o.Class, Exit: o.Exit, In: o.In, Out: o.Out, Took: float64(o.Took.Microseconds()) / 1000,
	}
}

func tried(t gateway.EgressTry) line {
	l := line{
		Type: try, Time: t.Time.UTC(), Tenant: t.Tenant, Sandbox: t.Sandbox,
		Verdict: string(t.Verdict), Try: t.ID, To: t.Host, Port: t.Port, Protocol: t.Protocol, Rule: t.Rule, Reason: t.Reason, Secret: t.Secret,
	}
	if t.Address.IsValid() {
		l.Address = t.Address.String()
	}
	if t.Count > 1 {
		l.Count = t.Count
	}
	return l
}

// text returns a line in JSON.
func (l line) text() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // scripts are to be read
	if err := encoder.Encode(l); err != nil {
		panic(err) // there is nothing in it that has no JSON
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// chain is where a log has come to. Each line has its number, and the hash of the line before it.
type chain struct {
	next     uint64            // the number of the next line
	head     [sha256.Size]byte // the hash of the last line
	unsigned int               // how many lines come after the last signature
}

// add appends a line to text, which has no line's end before it. With a key the line is signed.
func (c *chain) add(text, of []byte, key ed25519.PrivateKey) []byte {
	from := len(text)
	text = fmt.Appendf(text, `{"seq":%d,"prev":"%s",`, c.next, c.prev())
	text = append(text, of[1:]...)
	c.unsigned++
	if key != nil {
		text = seal(text, from, key)
		c.unsigned = 0
	}
	c.next, c.head = c.next+1, sha256.Sum256(text[from:])
	return append(text, '\n')
}

func (c *chain) prev() string {
	if c.next == 0 {
		return ""
	}
	return hex.EncodeToString(c.head[:])
}

// A signed line ends with these around its signature in base64. What is signed is what comes before
// them, after signedText.
const (
	sealBegin  = `,"sig":"`
	sealEnd    = `"}`
	signedText = "podagent audit line\n"
)

var sealSize = len(sealBegin) + base64.StdEncoding.EncodedLen(ed25519.SignatureSize) + len(sealEnd)

// seal signs the line that begins at from.
func seal(text []byte, from int, key ed25519.PrivateKey) []byte {
	text = text[:len(text)-1] // the brace
	sig := ed25519.Sign(key, append([]byte(signedText), text[from:]...))
	text = append(text, sealBegin...)
	text = base64.StdEncoding.AppendEncode(text, sig)
	return append(text, sealEnd...)
}

// signature takes a signed line apart; ok is false for one that is not signed.
func signature(text []byte) (signed, sig []byte, ok bool) {
	at := len(text) - sealSize
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(sealBegin)) || !bytes.HasSuffix(text, []byte(sealEnd)) {
		return nil, nil, false
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(string(text[at+len(sealBegin) : len(text)-len(sealEnd)]))
	return text[:at], sig, err == nil
}

// isSigned reports whether a line is signed with the other half of a key.
func isSigned(text []byte, key ed25519.PublicKey) bool {
	signed, sig, ok := signature(text)
	return ok && ed25519.Verify(key, append([]byte(signedText), signed...), sig)
}

// isSignedType reports whether lines of a type are signed.
func isSignedType(kind string) bool { return kind == start || kind == sign || kind == closed }
