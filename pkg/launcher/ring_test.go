package launcher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

func made(t *testing.T, number int, expires time.Time) keyVersion {
	t.Helper()
	id, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return keyVersion{Identity: id, number: number, expires: expires}
}

func retiring(v keyVersion) keyVersion {
	v.retiring = time.Now()
	return v
}

func TestNewestKeyLaunchesUnlessItIsDue(t *testing.T) {
	soon, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		versions []keyVersion
		want     []int
	}{
		"one":         {[]keyVersion{made(t, 1, time.Time{})}, []int{1}},
		"in disorder": {[]keyVersion{made(t, 1, time.Time{}), made(t, 3, soon), made(t, 2, time.Time{})}, []int{3, 2, 1}},
		"one due":     {[]keyVersion{made(t, 1, time.Time{}), made(t, 2, before)}, []int{1, 2}},
		"all due":     {[]keyVersion{made(t, 1, before), made(t, 2, before)}, []int{2, 1}},
		"retiring":    {[]keyVersion{retiring(made(t, 3, soon)), made(t, 1, before), made(t, 2, soon)}, []int{2, 1, 3}},
	} {
		r, err := newRing(test.versions)
		if err != nil || len(r) != len(test.want) {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		for i, v := range r {
			if v.number != test.want[i] {
				t.Errorf("%s: version %d is at %d", name, v.number, i)
			}
		}
	}
}

func TestIdentityFileHasAllVersionsAndIsReadByOlderPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.pem")
	if _, err := identityFile(path); err != nil {
		t.Fatal(err)
	}
	store := fileStore(path)
	var second keyVersion
	extend := func(lasts time.Duration) error {
		return store.change(t.Context(), func(versions []keyVersion) (_ []keyVersion, err error) {
			second, err = next(versions, lasts)
			return slices.Concat([]keyVersion{second}, versions), err
		})
	}
	if err := extend(time.Hour); err != nil {
		t.Fatal(err)
	}
	r, err := identityFile(path)
	if err != nil || len(r) != 2 || r[0].number != 2 || r[0].fingerprint() != second.fingerprint() || time.Until(r[0].expires) > time.Hour {
		t.Fatalf("%+v, %v", r, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := podapi.ParseIdentity(data); err != nil || id.AuthorizedKey().String() != second.AuthorizedKey().String() {
		t.Errorf("a program that knows of one key reads %v, %v", id.AuthorizedKey(), err)
	}
	err = store.change(t.Context(), func(versions []keyVersion) ([]keyVersion, error) { return without(versions, r[1]), nil })
	if err != nil {
		t.Fatal(err)
	}
	if r, err := identityFile(path); err != nil || len(r) != 1 || r[0].number != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for range maxVersions - 1 {
		if err := extend(0); err != nil {
			t.Fatal(err)
		}
	}
	if err := extend(0); err == nil {
		t.Error("there is one more than there may be")
	}
}

func TestDamagedVersionsAreErrors(t *testing.T) {
	v := made(t, 1, time.Time{})
	good, err := formatVersions([]keyVersion{v})
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"Version: 0", "Version: x", "Created: today", "Expires: never"} {
		bad := "-----BEGIN PRIVATE KEY-----\n" + header + "\n\n" + string(good[len("-----BEGIN PRIVATE KEY-----\nVersion: 1\n\n"):])
		if versions, err := parseVersions([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", header, versions)
		}
	}
}

// A key that another orchestrator has made is learned when it is first seen, and what cannot be
// read leaves what is known.
func TestRingIsReadAgainForAnUnknownKey(t *testing.T) {
	older, newer := made(t, 1, time.Time{}), made(t, 2, time.Time{})
	present := []keyVersion{older}
	var fails error
	read := func(context.Context) (ring, error) {
		if fails != nil {
			return nil, fails
		}
		return newRing(present)
	}
	c := &cluster{identities: newIdentities(read, read)}
	if _, err := c.identities.fresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	present = []keyVersion{older, newer}
	c.identities.at = time.Time{} // long ago
	if v, err := c.versionOf(t.Context(), newer.fingerprint()); err != nil || v.number != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	fails = errors.New("it is away")
	if r, err := c.identities.fresh(t.Context(), 0); !errors.Is(err, fails) || len(r) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A silent API holds up nobody beyond their deadline, and what it says at last is as old as the
// question. Those who have waited for it ask no more.
func TestRingIsNotAwaitedBeyondADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, answer, reads := made(t, 1, time.Time{}), make(chan struct{}), 0
		read := func(context.Context) (ring, error) {
			reads++
			<-answer
			return newRing([]keyVersion{v})
		}
		i := newIdentities(read, read)
		go i.fresh(t.Context(), 0)
		time.Sleep(time.Second)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := i.fresh(short, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the one who waits gets %v", err)
		}
		time.Sleep(ringAge)
		close(answer)
		synctest.Wait()
		if _, err := i.fresh(t.Context(), ringAge); err != nil || reads != 2 {
			t.Errorf("a slow answer is fresh: %d reads, %v", reads, err)
		}
	})
}

func TestThoseWhoWaitForTheRingShareTheNextReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, reads := made(t, 1, time.Time{}), 0
		read := func(context.Context) (ring, error) {
			reads++
			time.Sleep(2 * retryAge)
			return newRing([]keyVersion{v})
		}
		i := newIdentities(read, read)
		var all sync.WaitGroup
		all.Go(func() { _, _ = i.fresh(t.Context(), 0) })
		time.Sleep(time.Millisecond)
		for range 5 { // the first may have begun to be read before they asked
			all.Go(func() { _, _ = i.fresh(t.Context(), retryAge) })
		}
		all.Wait()
		if reads != 2 {
			t.Errorf("it was read %d times", reads)
		}
	})
}
