package wire

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func signed(t testing.TB, assignment *pb.Assignment, podUID string, signer byte) string {
	t.Helper()
	private, _ := pair(signer)
	text, err := SignAssignment(assignment, podUID, private)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAssignmentIsBelievedForItsPodAndAKeyThatCounts(t *testing.T) {
	want := &pb.Assignment{Env: [][]byte{[]byte("A=\xff")}, ProtectedPaths: [][]byte{[]byte("*.lock")}, IdleTimeout: 5}
	text := signed(t, want, "u", 0)
	got, err := VerifyAssignment(text, "u", publics(1, 0))
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	other := signed(t, &pb.Assignment{}, "u", 0)
	signature, _, _ := strings.Cut(other, ",")
	_, data, _ := strings.Cut(text, ",")
	for name, c := range map[string]struct {
		text, podUID string
		key          byte
	}{
		"another pod's":         {text, "v", 0},
		"by another key":        {text, "u", 1},
		"of another assignment": {signature + "," + data, "u", 0},
		"without signature":     {"," + data, "u", 0},
		"without an assignment": {signature, "u", 0},
		"nothing":               {"", "u", 0},
		"with more behind":      {text + "A", "u", 0},
		"with white space":      {text + "\n", "u", 0},
		"a link of the keys":    {strings.Fields(extend(t, "", "u", 0, 0))[0], "u", 0},
	} {
		if assignment, err := VerifyAssignment(c.text, c.podUID, publics(c.key)); err == nil {
			t.Errorf("%s: %v is believed", name, assignment)
		}
	}
}

// What an agent does not know may have been meant to protect something.
func TestAssignmentWithAnUnknownFieldIsRefused(t *testing.T) {
	assignment := &pb.Assignment{}
	assignment.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	_, err := VerifyAssignment(signed(t, assignment, "u", 0), "u", publics(0))
	if err == nil || !strings.Contains(err.Error(), "update the agent") {
		t.Errorf("got %v", err)
	}
}

func TestAssignmentIsSignedAnewByAnotherKey(t *testing.T) {
	assignment := &pb.Assignment{IdleTimeout: 7}
	older := signed(t, assignment, "u", 0)
	private, _ := pair(1)
	newer, err := SignAssignmentAnew(older, "u", "u", publics(0), private)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := VerifyAssignment(newer, "u", publics(1)); err != nil || !proto.Equal(got, assignment) {
		t.Errorf("got %v, %v", got, err)
	}
	if !SameAssignment(older, newer) || SameAssignment(older, signed(t, &pb.Assignment{}, "u", 0)) {
		t.Error("SameAssignment looks at more, or less, than the assignment")
	}
	if _, err := SignAssignmentAnew(older, "u", "u", publics(1), private); err == nil {
		t.Error("an assignment that no key has signed is signed anew")
	}
}

func FuzzVerifyAssignment(f *testing.F) {
	text := signed(f, &pb.Assignment{IdleTimeout: 7}, "u", 0)
	for _, seed := range []string{"", ",", text, text + ",", strings.ToLower(text)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, other string) {
		if assignment, err := VerifyAssignment(other, "u", publics(0)); err == nil && other != text {
			t.Errorf("%q: %v is believed", other, assignment)
		}
	})
}
