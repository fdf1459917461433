package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// An agent that was started for a pool awaits an assignment: what it serves a sandbox with for
// good. The pod keeps it in an annotation, which the agent reads at each start. So it is signed
// by a key that counts for the agent: who may change the annotation, but has no key, can only
// make the agent await an assignment again. ConfigureRequest.assignment describes the text.

// SignAssignment returns the text of an assignment for the agent of a pod.
func SignAssignment(assignment *pb.Assignment, podUID string, signer ed25519.PrivateKey) (string, error) {
	data, err := proto.Marshal(assignment)
	if err != nil {
		return "", err
	}
	return signAssignment(data, podUID, signer), nil
}

// SignAssignmentAnew returns an assignment that one of the keys has signed for from, signed by
// signer for the agent of a pod.
func SignAssignmentAnew(text, from, podUID string, keys []AuthorizedKey, signer ed25519.PrivateKey) (string, error) {
	data, err := assignmentData(text, from, keys)
	if err != nil {
		return "", err
	}
	return signAssignment(data, podUID, signer), nil
}

// VerifyAssignment returns the assignment for the agent of a pod, if one of the keys has
// signed it.
func VerifyAssignment(text, podUID string, keys []AuthorizedKey) (*pb.Assignment, error) {
	data, err := assignmentData(text, podUID, keys)
	if err != nil {
		return nil, err
	}
	assignment := &pb.Assignment{}
	if err := proto.Unmarshal(data, assignment); err != nil {
		return nil, fmt.Errorf("the assignment is not one: %w", err)
	}
	if len(assignment.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("the assignment has fields that this agent does not know: update the agent's image")
	}
	return assignment, nil
}

func signAssignment(data []byte, podUID string, signer ed25519.PrivateKey) string {
	return assignmentText(ed25519.Sign(signer, assignmentStatement(podUID, data)), data)
}

// assignmentText returns an assignment as it is written.
func assignmentText(signature, data []byte) string {
	return base64.RawStdEncoding.EncodeToString(signature) + "," + base64.RawStdEncoding.EncodeToString(data)
}

// assignmentData returns the signed bytes of an assignment.
func assignmentData(text, podUID string, keys []AuthorizedKey) ([]byte, error) {
	first, second, _ := strings.Cut(text, ",")
	signature, err := base64.RawStdEncoding.Strict().DecodeString(first)
	data, dataErr := base64.RawStdEncoding.Strict().DecodeString(second)
	if err != nil || dataErr != nil || assignmentText(signature, data) != text { // decoding skips line ends
		return nil, errors.New("the assignment is not written as assignments are")
	}
	for _, key := range keys {
		if ed25519.Verify(key.key, assignmentStatement(podUID, data), signature) {
			return data, nil
		}
	}
	return nil, fmt.Errorf("no key that counts has signed the assignment for %s", podUID)
}

// assignmentStatement returns what is signed. It begins otherwise than all else that the
// identity's key signs: see linkStatement.
func assignmentStatement(podUID string, data []byte) []byte {
	return append([]byte("podagent assignment v1\n"+podUID+"\n"), data...)
}

// SameAssignment reports whether two texts say the same, whoever signed them.
func SameAssignment(a, b string) bool {
	_, first, _ := strings.Cut(a, ",")
	_, second, _ := strings.Cut(b, ",")
	return first == second
}
