package agentsandbox

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// The messages of process.v1.ProcessService and watcher.v1.FileWatcherService, as protobuf encodes them. They
// are few and small, and code that is generated from a description of theirs could not be in one program with
// agent-sandbox's own.

type processConfig struct {
	command []string // field 1
	env     []string // field 2, a map, as NAME=VALUE
	cwd     string   // field 3
}

type startRequest struct { // ExecuteRequest is one without pty
	config processConfig // field 1
	pty    *terminalSize // field 2
}

type terminalSize struct{ cols, rows uint64 } // fields 1 and 2

type stdinRequest struct {
	process int64  // field 1
	input   []byte // field 2
	eof     bool   // field 3, an empty message
}

type signalRequest struct{ process, signal int64 } // fields 1 and 2

type resizeRequest struct {
	process int64        // field 1
	size    terminalSize // fields 2 and 3
}

type watchRequest struct {
	path      string // field 1
	recursive bool   // field 2
}

var errMessage = faces.BadRequest("the message is not as it should be")

// eachField passes on the fields of a message: those that are numbers, and those that are bytes.
func eachField(message []byte, number func(protowire.Number, uint64), bytes func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMessage
		}
		message = message[n:]
		var err error
		switch kind {
		case protowire.VarintType:
			var value uint64
			if value, n = protowire.ConsumeVarint(message); n >= 0 && number != nil {
				number(field, value)
			}
		case protowire.BytesType:
			var value []byte
			if value, n = protowire.ConsumeBytes(message); n >= 0 && bytes != nil {
				err = bytes(field, value)
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return errMessage
		}
		if err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

func parseStart(message []byte) (*startRequest, error) {
	in := &startRequest{}
	return in, eachField(message, nil, func(field protowire.Number, value []byte) error {
		switch field {
		case 1:
			return in.config.parse(value)
		case 2:
			in.pty = &terminalSize{}
			return eachField(value, func(field protowire.Number, value uint64) { in.pty.set(field, value) }, nil)
		}
		return nil
	})
}

func (s *terminalSize) set(field protowire.Number, value uint64) {
	switch field {
	case 1:
		s.cols = value
	case 2:
		s.rows = value
	}
}

func (c *processConfig) parse(message []byte) error {
	return eachField(message, nil, func(field protowire.Number, value []byte) error {
		switch {
		case field <= 3 && !utf8.Valid(value) && field != 2:
			return errMessage
		case len(c.command)+len(c.env) > wordsLimit:
			return faces.BadRequest("there are more than %d arguments and variables", wordsLimit)
		case field == 1:
			c.command = append(c.command, string(value))
		case field == 2:
			return c.addVariable(value)
		case field == 3:
			c.cwd = string(value)
		}
		return nil
	})
}

// addVariable adds an entry of the map of variables.
func (c *processConfig) addVariable(message []byte) error {
	var pair [2]string
	err := eachField(message, nil, func(field protowire.Number, value []byte) error {
		if !utf8.Valid(value) {
			return errMessage
		}
		if field <= 2 {
			pair[field-1] = string(value)
		}
		return nil
	})
	if err == nil {
		err = checkVariable(pair[0])
	}
	c.env = append(c.env, pair[0]+"="+pair[1])
	return err
}

func parseStdin(message []byte) (*stdinRequest, error) {
	in := &stdinRequest{}
	return in, eachField(message, func(field protowire.Number, value uint64) {
		if field == 1 {
			in.process = int64(int32(value))
		}
	}, func(field protowire.Number, value []byte) error {
		switch field {
		case 2:
			in.input, in.eof = value, false
		case 3:
			in.input, in.eof = nil, true
		}
		return nil
	})
}

func parseSignal(message []byte) (*signalRequest, error) {
	in := &signalRequest{}
	return in, eachField(message, func(field protowire.Number, value uint64) {
		switch field {
		case 1:
			in.process = int64(int32(value))
		case 2:
			in.signal = int64(int32(value))
		}
	}, nil)
}

func parseResize(message []byte) (*resizeRequest, error) {
	in := &resizeRequest{}
	return in, eachField(message, func(field protowire.Number, value uint64) {
		if field == 1 {
			in.process = int64(int32(value))
			return
		}
		in.size.set(field-1, value)
	}, nil)
}

func parseWatch(message []byte) (*watchRequest, error) {
	in := &watchRequest{}
	return in, eachField(message, func(field protowire.Number, value uint64) {
		if field == 2 {
			in.recursive = value != 0
		}
	}, func(field protowire.Number, value []byte) error {
		if field == 1 {
			if !utf8.Valid(value) {
				return errMessage
			}
			in.path = string(value)
		}
		return nil
	})
}

// numberField and bytesField are fields of a message that is sent.
func numberField(field protowire.Number, value int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), uint64(value))
}

func bytesField(field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
}

// The events of a process: each is one field of StartResponse.
func initEvent(pid int) []byte       { return bytesField(1, numberField(1, int64(pid))) }
func stdoutEvent(data []byte) []byte { return bytesField(2, data) }
func stderrEvent(data []byte) []byte { return bytesField(3, data) }
func exitEvent(code int) []byte      { return bytesField(4, numberField(1, int64(code))) }
func executeResponse(r *result) []byte {
	m := numberField(1, int64(exitCode(r.status)))
	m = append(m, bytesField(2, r.stdout.Bytes())...)
	return append(m, bytesField(3, r.stderr.Bytes())...)
}

// fileEvent is something that happened to a file.
type fileEvent struct {
	kind             int64
	path, old, fault string
}

func (e *fileEvent) encode() []byte {
	m := numberField(1, e.kind)
	for i, value := range []string{e.path, e.old, e.fault} {
		if value != "" {
			m = append(m, bytesField(protowire.Number(i+2), []byte(faces.Text(value)))...)
		}
	}
	return m
}
