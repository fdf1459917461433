// Package isolate keeps a whole agent from the rest of its machine, without privileges: its file
// calls, searches and watches see what its commands see.
//
// A program cannot take this back, and some of it concerns single threads. So the agent runs itself
// again, before it serves anything:
//
//   - namespaces: [Run] starts the program in new namespaces, in which it is nobody's but its own
//     (stage mounts). There it builds the file system of the [View], gives up what rights that took,
//     and runs itself once more (stage inside). The first program stays, waits, and passes on signals.
//   - landlock: the program restricts its main thread by rules of the View, and runs itself again in
//     its place (stage inside).
//
// The sockets on which the agent serves are opened before, by their paths outside: inside there is no
// path to them. Within rules of Landlock they are inherited. From namespaces nobody sees who calls, so the
// first program accepts connections, and passes them on.
//
// The view is described once (view.go). For namespaces it becomes mounts (mounts, trees, masks), and for Landlock it
// becomes rules (landlock). Each stage checks that it is where it is told to be (verify).
package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/procfs"
)

// ErrUnavailable says that there cannot be what a mode names. [Unavailable] makes such errors.
var ErrUnavailable = errors.New("the sandbox cannot be isolated as required")

// unavailableError is [ErrUnavailable], with its reason.
type unavailableError struct{ reason error }

func (e *unavailableError) Error() string   { return ErrUnavailable.Error() + ": " + e.reason.Error() }
func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.reason} }

// Unavailable returns an [ErrUnavailable] with this reason.
func Unavailable(reason error) error { return &unavailableError{reason} }

// Reason says why there is no level, or no stronger one. It leaves out what [ErrUnavailable] says: a sandbox that has a
// level, or needs none, is as required.
func Reason(err error) string {
	if unavailable, ok := errors.AsType[*unavailableError](err); ok {
		err = unavailable.reason
	}
	return err.Error()
}

// stateVariable names the variable by which a program tells its next stage what it is.
const stateVariable = "PODAGENT_ISOLATION_STAGE"

// A stage of the program that is run again.
type stage string

const (
	mounts stage = "mounts" // in namespaces, which it furnishes
	inside stage = "inside" // isolated
)

// State is what a program that was run again knows of its isolation, and the descriptors that it has
// inherited.
type State struct {
	isolation.Info
	View    View
	Stage   stage
	Sockets []int // those that were opened, or in namespaces those over which connections are passed
	Program int   // its own file, which need not have a path
	Report  int   // where the stage mounts says what went wrong
	// Store is the directory of the checkpoints, which has no path in the namespaces; 0 for none.
	Store  int
	Limits Limits
	// Processes is how many its commands may be together, if resource limits limit them; else 0.
	Processes int

	numbered bool // whether the numbers of its processes are limited
}

func (s *State) environ() (string, error) {
	text, err := json.Marshal(s)
	return stateVariable + "=" + string(text), err
}

// Inside returns the state of a program that is isolated, and nil for one that was not run again. It fails
// if the program is told so, and is not. The program in new namespaces furnishes them first, and runs itself
// again: then Inside does not return. It must be called on the main thread.
func Inside() (*State, error) {
	text, ok := os.LookupEnv(stateVariable)
	if !ok {
		return nil, nil
	}
	os.Unsetenv(stateVariable)
	s := new(State)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%s: %w", stateVariable, err)
	}
	if err := s.verify(); err != nil {
		return nil, fmt.Errorf("%s is for the program itself to set, and this one is not isolated as it says: %w", stateVariable, err)
	}
	if s.Stage == mounts {
		s.furnish()
	}
	if s.Store != 0 {
		unix.CloseOnExec(s.Store) // no command inherits it
	}
	return s, s.dieWithParent()
}

// Checkpoints returns the path by which the program gets at the directory of its checkpoints, "" for none.
func (s *State) Checkpoints() string {
	if s.Store != 0 {
		return procfs.DescriptorPath(s.Store)
	}
	return s.View.Checkpoints
}

// Files returns the sockets that the program has inherited. The caller closes them.
func (s *State) Files() []*os.File {
	var files []*os.File
	for _, fd := range s.Sockets {
		files = append(files, os.NewFile(uintptr(fd), "socket"))
	}
	return files
}

// Sockets are those on which the isolated program is to serve.
type Sockets struct {
	Opened []*os.File
	// Pass accepts connections at one that was opened, and passes them on over another one. It returns
	// when the other end of that is closed.
	Pass func(opened, to *os.File)
}

// Run runs the program again, isolated as the mode says, to serve on the sockets. It returns the exit
// status of the isolated program, or why there is none: [ErrUnavailable] if the machine does not
// let the mode's level be, and this program is as it was. Any other error, such as of a lack of memory, says
// nothing of the machine, and there is no weaker level for it. It must be called on the main thread.
func Run(mode isolation.Mode, view View, limits Limits, sockets Sockets, log *slog.Logger) (status int, err error) {
	var missing error
	if mode != isolation.Mode(isolation.Landlock) {
		status, err := runInNamespaces(view, limits, sockets)
		if !errors.Is(err, ErrUnavailable) || mode == isolation.Mode(isolation.Namespaces) {
			return status, err
		}
		if view.Ephemeral > 0 {
			return 0, err
		}
		missing = err
		log.Info("the sandbox gets no namespaces of its own", "reason", Reason(err))
	}
	if view.Ephemeral > 0 {
		return 0, Unavailable(errors.New("landlock: what a sandbox has in memory would outlive it: only namespaces end it"))
	}
	err = becomeRestricted(view, limits, sockets.Opened, missing)
	if missing != nil && errors.Is(err, ErrUnavailable) {
		err = Unavailable(fmt.Errorf("%s; %s", Reason(missing), Reason(err)))
	}
	return 0, err
}
