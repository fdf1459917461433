package object

import (
	"errors"
	"testing"
)

// putUnverified keeps content as that of a hash, which may be another one's.
func putUnverified(t *testing.T, o *Store, h Hash, content []byte) {
	t.Helper()
	if err := o.PutUnverified(h, content, Raw); err != nil {
		t.Fatal(err)
	}
}

func (o *Store) mustCount(t *testing.T) int64 {
	t.Helper()
	o.counted = false
	if err := o.Count(); err != nil {
		t.Fatal(err)
	}
	return o.Used()
}

// What is unverified counts as stored only once it is settled. What is damaged is gone then, and all else is there, also for
// another process.
func TestSettledObjectsAreWhole(t *testing.T) {
	const damaged = 3
	for _, read := range []bool{false, true} {
		dir := t.TempDir()
		o := openStore(t, dir)
		all := map[Hash][]byte{}
		var hashes []Hash
		for i := range 6 { // two in each pack
			content := noisy(byte(i), 100*(i+1))
			h := Sum(content)
			hashes = append(hashes, h)
			if i == damaged {
				content = noisy(9, 400)
			} else {
				all[h] = content
			}
			putUnverified(t, o, h, content)
			if i%2 == 1 {
				if err := o.Seal(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, h := range hashes {
			if o.Has(h) {
				t.Errorf("object %d counts as stored", i)
			}
			if read {
				_, _ = o.Read(new(Coder), h, WholeSize)
			}
		}
		lost, err := o.SettleUnverified()
		if err != nil || len(lost) != 1 || !lost[hashes[damaged]] {
			t.Errorf("%v is damaged, %v", lost, err)
		}
		used := o.mustCount(t)
		for _, o := range []*Store{o, openStore(t, dir)} {
			mustHave(t, o, all)
			for i, h := range hashes {
				if unverified, err := o.HasUnverified(h); err != nil || unverified || o.Has(h) == (i == damaged) {
					t.Errorf("object %d is stored: %v, and unverified: %v, %v", i, o.Has(h), unverified, err)
				}
			}
			if again := o.mustCount(t); again != used {
				t.Errorf("the objects take %d bytes, and then %d", used, again)
			}
		}
		if err := o.CheckThere(hashes[damaged]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("what was damaged: %v", err)
		}
	}
}

// Content is read as the store has it, in a pack or in a file of its own, whatever is there unverified.
func TestUnverifiedObjectsHideNoOthers(t *testing.T) {
	o := openStore(t, t.TempDir())
	large, small := noisy(1, 3*CopySize), noisy(2, 100)
	for _, content := range [][]byte{large, small} {
		putUnverified(t, o, Sum(content), []byte("garbage"))
	}
	all := putAll(t, o, small)
	all[arrive(t, o, large)] = large
	mustHave(t, o, all)
	for h := range all {
		if err := o.Check(h); err != nil {
			t.Error(err)
		}
		if _, err := fill(t, o, h); err != nil {
			t.Error(err)
		}
	}
}
