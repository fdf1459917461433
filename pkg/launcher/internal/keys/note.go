package keys

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Subject says where a note is kept, and so what it is about. A note that was copied
// elsewhere does not verify there.
type Subject struct {
	Kind, Namespace, Name string // of the object
	UID                   string // of the object; empty in a note that is part of its creation
	ID                    string // of the sandbox
}

// bytes returns the subject for one use of it. No two subjects or uses have the same.
func (s Subject) bytes(use string) []byte {
	var b []byte
	for _, field := range []string{use, s.Kind, s.Namespace, s.Name, s.UID, s.ID} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(field)))
		b = append(b, field...)
	}
	return b
}

// version begins every note.
const version = "podagent/v1"

// MaxHeader bounds the first line of a note in bytes: its fields take some 190.
const MaxHeader = 512

// Errors of notes.
var (
	ErrNoNote    = errors.New("it is not signed")
	ErrForeign   = errors.New("it is signed by another identity")
	ErrSignature = errors.New("its signature is wrong: it was changed, or copied from elsewhere")
)

// Note is a text that an identity has signed. As it is written, its first line has a
// version, the generation, the fingerprint of the identity and the signature; the rest
// is the text. Nothing in the text is looked at before the signature is verified.
type Note struct {
	// Generation grows from one note about a subject to the next.
	Generation int64
	// Signer is the fingerprint of the identity that is said to have signed it.
	Signer    string
	Signature []byte
	Text      string
}

// statement is what the signature is over.
func (n Note) statement(about Subject) []byte {
	b := about.bytes("podagent signed v1")
	b = binary.BigEndian.AppendUint64(b, uint64(n.Generation))
	return append(b, n.Text...)
}

// Sign returns a note about a subject, as it is written. The generation is positive.
func (s Set) Sign(about Subject, generation int64, text string) string {
	n := Note{Generation: generation, Signer: s.signer, Text: text}
	n.Signature = ed25519.Sign(s.sign, n.statement(about))
	return n.String()
}

// String returns the note as it is written.
func (n Note) String() string {
	return fmt.Sprintf("%s %d %s %s\n%s", version, n.Generation, n.Signer, base64.RawURLEncoding.EncodeToString(n.Signature), n.Text)
}

// Parse takes a note apart. It verifies nothing.
func Parse(written string) (Note, error) {
	line, _, found := strings.Cut(written[:min(len(written), MaxHeader)], "\n")
	fields := strings.Split(line, " ")
	if !found || len(fields) != 4 || fields[0] != version {
		return Note{}, ErrNoNote
	}
	generation, err := strconv.ParseInt(fields[1], 10, 64)
	signature, decodeErr := base64.RawURLEncoding.Strict().DecodeString(fields[3])
	if err != nil || decodeErr != nil || generation <= 0 || len(signature) != ed25519.SignatureSize {
		return Note{}, ErrNoNote
	}
	n := Note{generation, fields[2], signature, written[len(line)+1:]}
	if n.String() != written { // there is one way to write a note
		return Note{}, ErrNoNote
	}
	return n, nil
}

// Verify returns the note, if this identity has signed it about this subject.
func (s Set) Verify(about Subject, written string) (Note, error) {
	n, err := Parse(written)
	switch {
	case err != nil:
		return Note{}, err
	case n.Signer != s.signer:
		return Note{}, fmt.Errorf("%w, %s", ErrForeign, n.Signer)
	case !ed25519.Verify(s.sign.Public().(ed25519.PublicKey), n.statement(about), n.Signature):
		return Note{}, ErrSignature
	}
	return n, nil
}
