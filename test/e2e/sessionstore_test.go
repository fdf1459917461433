package e2e

// What both session stores promise: complete snapshots, and no lost updates.

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// overStores runs a test with each store, in parallel. open returns the store as
// another host sees it.
func overStores(t *testing.T, test func(t *testing.T, open func() sessionstore.Store)) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "made", "on demand")
		test(t, func() sessionstore.Store { return &sessionstore.Disk{Dir: dir} })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := sessionCluster(t)
		test(t, func() sessionstore.Store { return clusterStore(t, c) })
	})
}

// sessionCluster returns a cluster with the rights of deploy/session-rbac.yaml.
func sessionCluster(t *testing.T) *launchertest.Cluster {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	if err := c.Apply(t.Context(), "../../deploy/session-rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	s := clusterStore(t, c)
	harness.Await(t, "what was granted", func() bool { return s.Delete(t.Context(), "nothing") == nil })
	return c
}

func clusterStore(t *testing.T, c *launchertest.Cluster) *sessionstore.Cluster {
	t.Helper()
	return clusterStoreVia(t, c, nil)
}

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// clusterStoreVia returns a store whose requests go through via.
func clusterStoreVia(t *testing.T, c *launchertest.Cluster, via func(next http.RoundTripper) roundTrip) *sessionstore.Cluster {
	t.Helper()
	config := rest.CopyConfig(c.Orchestrator)
	config.QPS, config.Burst = 200, 400
	if via != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return via(next) })
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &sessionstore.Cluster{Client: client, Namespace: c.Namespace}
}

func load(t *testing.T, s sessionstore.Store, id string) sessionstore.Snapshot {
	t.Helper()
	snapshot, err := s.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func save(t *testing.T, s sessionstore.Store, id string, data []byte, version string) string {
	t.Helper()
	next, err := s.Save(t.Context(), id, data, version)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestSessionStoreKeepsSnapshotsOfAnySizeAndID(t *testing.T) {
	overStores(t, func(t *testing.T, open func() sessionstore.Store) {
		s := open()
		for _, id := range []string{"job-1", "JOB-1", "../../etc/passwd", "Job/123", "a b\n\x00", "🚀", strings.Repeat("x", 300), strings.Repeat("\x00", 4<<10)} {
			if _, err := s.Load(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("a session that is new: %v", err)
			}
			version := ""
			sizes := []int{0, 1, 3}
			if id == "job-1" {
				sizes = []int{0, 1, 900 << 10, 900<<10 + 1, 10 << 20, 3}
			}
			for _, size := range sizes {
				data := make([]byte, size)
				rand.Read(data)
				version = save(t, s, id, data, version)
				if got := load(t, open(), id); !bytes.Equal(got.Data, data) || got.Version != version {
					t.Errorf("%.10q: %d bytes came back as %d, version %s as %s", id, size, len(got.Data), version, got.Version)
				}
			}
			for range 2 { // deleting a missing session is not an error
				if err := s.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := open().Load(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after its deletion: %v", err)
			}
		}
	})
}

func TestSessionStoreRefusesALostUpdate(t *testing.T) {
	overStores(t, func(t *testing.T, open func() sessionstore.Store) {
		first, second := open(), open()
		v1 := save(t, first, "job", []byte("1"), "")
		if _, err := second.Save(t.Context(), "job", []byte("other"), ""); !errors.Is(err, sessionstore.ErrConflict) {
			t.Errorf("a second first snapshot: %v", err)
		}
		if same := save(t, first, "job", []byte("1"), v1); same == v1 {
			t.Error("the same data, saved again, is of the same version")
		} else {
			v1 = same
		}
		large := bytes.Repeat([]byte("2"), 2<<20)
		v2 := save(t, second, "job", large, v1)
		_, err := first.Save(t.Context(), "job", bytes.Repeat([]byte("3"), 2<<20), v1)
		if e, ok := errors.AsType[*sessionstore.Error](err); !ok || e.ID != "job" || !errors.Is(err, sessionstore.ErrConflict) {
			t.Errorf("an update of an old version: %v", err)
		}
		if got := load(t, first, "job"); got.Version != v2 || !bytes.Equal(got.Data, large) {
			t.Errorf("after that it is version %s of %d bytes", got.Version, len(got.Data))
		}
		if err := first.Delete(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Save(t.Context(), "job", []byte("4"), v2); !errors.Is(err, sessionstore.ErrConflict) {
			t.Errorf("an update of what was deleted: %v", err)
		}
		again := save(t, second, "job", []byte("1"), "")
		if _, err := first.Save(t.Context(), "job", []byte("5"), v1); again == v1 || !errors.Is(err, sessionstore.ErrConflict) {
			t.Errorf("an update of an earlier life: %v", err)
		}
	})
}

// TestSessionStoreLosesNothingToConcurrentHosts lets hosts add to a snapshot
// concurrently. Everything that was reported as saved must be there.
func TestSessionStoreLosesNothingToConcurrentHosts(t *testing.T) {
	overStores(t, func(t *testing.T, open func() sessionstore.Store) {
		const hosts, rounds = 4, 6
		padding := bytes.Repeat([]byte("."), 1<<20) // more than fits into one Secret
		var group sync.WaitGroup
		for host := range hosts {
			group.Go(func() {
				s := open()
				for round := range rounds {
					if err := add(t.Context(), s, fmt.Sprintf("<%d.%d>", host, round), padding); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		got := load(t, open(), "shared").Data
		for host := range hosts {
			for round := range rounds {
				if n := bytes.Count(got, fmt.Appendf(nil, "<%d.%d>", host, round)); n != 1 {
					t.Errorf("host %d's number %d is there %d times", host, round, n)
				}
			}
		}
	})
}

// add adds a word to the shared snapshot. It tries again whenever another host was
// faster.
func add(ctx context.Context, s sessionstore.Store, word string, padding []byte) error {
	for range 1000 {
		old, err := s.Load(ctx, "shared")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		words := bytes.TrimRight(old.Data, ".")
		_, err = s.Save(ctx, "shared", append(append(words, word...), padding...), old.Version)
		if !errors.Is(err, sessionstore.ErrConflict) {
			return err
		}
	}
	return errors.New("no turn in 1000")
}

func TestSessionStoreRefusesWhatItCannotKeep(t *testing.T) {
	overStores(t, func(t *testing.T, open func() sessionstore.Store) {
		s := open()
		for _, id := range []string{"", strings.Repeat("x", 4<<10+1), "\xff"} {
			_, err := s.Save(t.Context(), id, nil, "")
			if !errors.Is(err, fs.ErrInvalid) || len(err.Error()) > 500 {
				t.Errorf("the id %.10q: %v", id, err)
			}
		}
		if _, err := s.Save(t.Context(), "large", make([]byte, sessionstore.MaxSnapshot+1), ""); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("too large: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Load(ended, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
	})
}

// TestSessionStoreShowsNoHalfOfASnapshot lets hosts load while another saves.
func TestSessionStoreShowsNoHalfOfASnapshot(t *testing.T) {
	overStores(t, func(t *testing.T, open func() sessionstore.Store) {
		content := func(round int) []byte { return bytes.Repeat([]byte{byte(round)}, 1<<20+round) }
		version := save(t, open(), "a", content(0), "")
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for s := open(); ctx.Err() == nil; {
					got, err := s.Load(t.Context(), "a")
					if err != nil || !bytes.Equal(got.Data, content(int(got.Data[0]))) {
						t.Errorf("%d bytes, %v", len(got.Data), err)
						return
					}
				}
			})
		}
		for round := range 10 {
			version = save(t, open(), "a", content(round+1), version)
		}
		cancel()
		group.Wait()
	})
}
