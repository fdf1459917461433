package podapi

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// An agent runs beside code that nobody trusts, in an image that may be anybody's. So
// the client takes no more from it than was asked for, and checks what it takes: an
// answer that breaks the contract is ErrProtocol. This file has the checks that several
// calls share.

// protocolError returns an ErrProtocol that says what is wrong.
func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// idleMessages counts the messages of an answer that bring nothing. Some may, such as
// results of a kind that this client does not know.
type idleMessages int

func (n *idleMessages) add() error {
	if *n++; *n > maxIdleMessages {
		return protocolError("%d messages without content", maxIdleMessages)
	}
	return nil
}

// checkNumbers refuses numbers that count nothing, or whose sums could overflow.
func checkNumbers(what string, numbers ...int64) error {
	for _, n := range numbers {
		if n < 0 || n > maxNumber {
			return protocolError("%s of %d", what, n)
		}
	}
	return nil
}

// checkPath refuses a path that no system has.
func checkPath(name []byte) error {
	if len(name) > maxPath {
		return protocolError("a path of %d bytes", len(name))
	}
	if bytes.IndexByte(name, 0) >= 0 {
		return protocolError("a path with a NUL byte")
	}
	return nil
}

// checkText refuses a text that is long, or that would do something to a terminal.
func checkText(what, s string) error {
	if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return protocolError("%s %.50q", what, s)
	}
	return nil
}

// checkExecID refuses an id that is not a UUIDv7 in lower case.
func checkExecID(id string) error {
	if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 7 || parsed.String() != id {
		return protocolError("the exec id %.50q", id)
	}
	return nil
}

// firstError returns the first of these errors.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func attrFromProto(a *pb.Attr) (fsops.Attr, error) {
	if a == nil {
		return fsops.Attr{}, protocolError("no attributes")
	}
	attr := fsops.Attr{
		Path:    string(a.Path),
		Size:    a.Size,
		Mode:    fs.FileMode(a.Mode),
		ModTime: time.Unix(0, a.Mtime),
		UID:     a.Uid,
		GID:     a.Gid,
		Target:  string(a.Target),
		ETag:    a.Etag,
	}
	return attr, firstError(
		checkPath(a.Path), checkPath(a.Target), checkText("the etag", a.Etag), checkNumbers("a size", a.Size),
	)
}

// checkEntry refuses a name that is not in the directory dir, or, unless recursive, not
// directly in it. Callers that walk or copy the tree go by these names.
func checkEntry(dir string, recursive bool, name string) error {
	prefix := path.Clean(dir) + "/"
	switch prefix {
	case "./":
		prefix = ""
	case "//":
		prefix = "/"
	}
	rest, ok := strings.CutPrefix(name, prefix)
	for part := range strings.SplitSeq(rest, "/") {
		ok = ok && part != "" && part != "." && part != ".."
	}
	if !ok || !recursive && strings.Contains(rest, "/") {
		return protocolError("%.200q as an entry of %.200q", name, dir)
	}
	return nil
}

// addSkipped adds why something was skipped. Agents of the minor version before send
// each such reason.
func addSkipped(to *fsops.SkippedError, op, name string, err error) error {
	to.Add(pathError(op, name, err))
	if to.Total() > maxSkipped {
		return protocolError("more than %d entries that could not be read", maxSkipped)
	}
	return nil
}

// A contentCheck checks the messages of an answer to Read, and their sum.
type contentCheck struct {
	request *pb.ReadRequest
	begun   bool
	most    int64 // bytes
	sum     fsops.Sum
	idle    idleMessages
}

// begin checks the header, and returns the file's attributes.
func (c *contentCheck) begin(h *pb.ReadHeader) (fsops.Attr, error) {
	if c.begun {
		return fsops.Attr{}, protocolError("a second header")
	}
	attr, err := attrFromProto(h.GetAttr())
	attr.Path = string(c.request.Path)
	c.begun, c.most = true, c.request.Length
	switch lines := c.request.Lines; {
	case lines != nil && lines.MaxBytes > 0:
		c.most = lines.MaxBytes
	case lines != nil:
		c.most = fsops.DefaultLineBytes
	case c.most == 0:
		c.most = 2*attr.Size + maxGrowth
	}
	return attr, err
}

// add checks the next bytes.
func (c *contentCheck) add(data []byte) error {
	if !c.begun {
		return protocolError("content before its header")
	}
	if len(data) == 0 {
		return c.idle.add()
	}
	if c.sum.Add(data); c.sum.Size > c.most {
		return protocolError("content of more than the %d bytes that were to come", c.most)
	}
	return nil
}

// end checks the final message.
func (c *contentCheck) end(end *pb.ReadEnd) error {
	if !c.begun {
		return protocolError("an end before the header")
	}
	return c.sum.Check(sumFromProto(end.Sum))
}

// linesFromProto returns the lines that text is said to be.
func linesFromProto(request *pb.LineWindow, l *pb.LineResult, text []byte) (fsops.Lines, error) {
	lines := fsops.Lines{
		Text: text, First: l.GetFirst(), Count: l.GetCount(), Total: l.GetTotal(),
		Truncated: l.GetTruncated(), CutLine: l.GetCutLine(),
	}
	count := int64(bytes.Count(text, []byte{'\n'}))
	if len(text) > 0 && text[len(text)-1] != '\n' || lines.CutLine {
		count++
	}
	last := lines.First + lines.Count - 1
	if lines.First != max(request.First, 1) || lines.Count != count || request.Max > 0 && count > request.Max ||
		lines.CutLine && count != 1 || lines.Total < -1 || count > 0 && lines.Total >= 0 && lines.Total < last {
		return fsops.Lines{}, protocolError("%d bytes as lines %d to %d of %d", len(text), lines.First, last, lines.Total)
	}
	return lines, nil
}

// appendSized appends to a content that is said to have so many bytes in the end. On
// the agent's word it reserves four times what has arrived, at most.
func appendSized(data, chunk []byte, size int64) []byte {
	if need := int64(len(data) + len(chunk)); need > int64(cap(data)) && need < size {
		data = append(make([]byte, 0, min(size, 4*need)), data...)
	}
	return append(data, chunk...)
}

// skippedReason returns why something was skipped, from what the agent says of it.
func skippedReason(e *pb.Error) error {
	if e == nil {
		e = &pb.Error{Message: "cannot be read"}
	}
	return wire.DecodeError(e)
}
