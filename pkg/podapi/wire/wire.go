// Package wire is what the agent and the Go client of package podapi share below
// the generated code, so that both ends of a connection agree:
//
//   - errors: [ToStatus] and [FromStatus] are the only mapping of Go's errors to
//     the contract's and back;
//   - the coding of messages ([Codec], [BufferPool]), with one copy of content;
//   - who may call: [AuthorizedKey], and TLS for each end ([AgentTLS], [ClientTLS]);
//   - the version of the contract, and the sizes and times that both ends keep.
//
// Hosts do not need it: package podapi has what they call, and the names of the
// errors that they compare with. It is public so that the agent, a program in
// another folder, can import it.
package wire

// The version of the contract. Client and agent work together when the majors
// are equal and the minors differ by one at most.
const (
	ProtocolMajor = 1
	ProtocolMinor = 1
)
