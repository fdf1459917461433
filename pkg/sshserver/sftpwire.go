package sshserver

import (
	"encoding/binary"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

// The types of sftp's messages (draft-ietf-secsh-filexfer-02, 3) that this file knows.
const (
	sftpVersion       = 2
	sftpExtended      = 200
	sftpExtendedReply = 201
)

// limitsName is an extension of OpenSSH's: a client asks how long its requests may be.
const limitsName = "limits@openssh.com"

// messages is the channel of a session of sftp. It sends each message as a whole, since package sftp
// writes it in pieces, each of which would be a packet of SSH. And it knows limitsName, which package sftp does
// not: clients that ask send fewer and longer requests.
type messages struct {
	ssh.Channel

	// Of the message that is being read: its beginning, which was looked at, and how many bytes follow.
	begun []byte
	left  int64

	mu  sync.Mutex // serializes messages
	out []byte     // the message that is being written
}

// Read implements io.Reader. It answers the requests for limits itself.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.begun) == 0 && m.left == 0 {
		if err := m.begin(); err != nil {
			return 0, err
		}
	}
	if len(m.begun) > 0 {
		n := copy(p, m.begun)
		m.begun = m.begun[n:]
		return n, nil
	}
	n, err := m.Channel.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	return n, err
}

// begin reads the beginning of the next message, all of it if that may be a request for limits. What is no
// message is left to package sftp.
func (m *messages) begin() error {
	const longest = 1 + 4 + 4 + len(limitsName)
	var buffer [4 + longest]byte
	if _, err := io.ReadFull(m.Channel, buffer[:4]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(buffer[:])
	known := min(length, 1)
	if _, err := io.ReadFull(m.Channel, buffer[4:4+known]); err != nil {
		return noEnd(err)
	}
	if known == 1 && buffer[4] == sftpExtended && length == uint32(longest) {
		known = length
		if _, err := io.ReadFull(m.Channel, buffer[5:]); err != nil {
			return noEnd(err)
		}
		if string(buffer[13:]) == limitsName {
			return m.sendLimits(buffer[5:9])
		}
	}
	m.begun, m.left = buffer[:4+known], int64(length-known)
	return nil
}

// noEnd returns err, unless that says that the client ended where it may.
func noEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sendLimits answers the request of this id.
func (m *messages) sendLimits(id []byte) error {
	reply := append([]byte{0, 0, 0, 0, sftpExtendedReply}, id...)
	for _, limit := range []uint64{maxMessage, maxRead, maxWrite, maxHandles} {
		reply = binary.BigEndian.AppendUint64(reply, limit)
	}
	binary.BigEndian.PutUint32(reply, uint32(len(reply)-4))
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.Channel.Write(reply)
	return err
}

// Write implements io.Writer. It keeps the pieces of a message until that is whole. Only one goroutine writes.
func (m *messages) Write(p []byte) (int, error) {
	m.out = append(m.out, p...)
	if len(m.out) <= 4 || uint64(len(m.out)) < 4+uint64(binary.BigEndian.Uint32(m.out)) {
		return len(p), nil
	}
	if m.out[4] == sftpVersion {
		m.out = withLimits(m.out)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.Channel.Write(m.out)
	m.out = m.out[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// withLimits adds limitsName to the extensions in the message that begins a session.
func withLimits(version []byte) []byte {
	for _, s := range []string{limitsName, "1"} {
		version = binary.BigEndian.AppendUint32(version, uint32(len(s)))
		version = append(version, s...)
	}
	binary.BigEndian.PutUint32(version, uint32(len(version)-4))
	return version
}
