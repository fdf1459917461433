package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// arrivals say when checkpoints of other stores have arrived in this one. Such a checkpoint knows nothing of the files that
// were here by then, and has the time of another clock: only what was made or changed after its arrival is newer.
type arrivals map[ID]time.Time

// readArrivals returns the arrivals. A file that is none is [ErrCorrupt].
func (s *Store) readArrivals() (arrivals, error) {
	text, err := s.readFile(arrivalsFile, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var known arrivals
	if err == nil {
		if err = json.Unmarshal(text, &known); err != nil {
			err = fmt.Errorf("%w: %s: %w", ErrCorrupt, arrivalsFile, err)
		}
	}
	return known, err
}

// noteArrival notes that a checkpoint arrives now. It forgets those that are gone. If it cannot tell which of the
// others have arrived, they all have.
func (s *Store) noteArrival(id ID) error {
	known, readErr := s.readArrivals()
	if readErr != nil && !errors.Is(readErr, ErrCorrupt) {
		return readErr
	}
	names, err := s.manifestNames()
	if err != nil {
		return err
	}
	now := time.Now()
	kept := arrivals{id: now}
	for _, name := range names {
		if at, ok := known[ID(name)]; ok {
			kept[ID(name)] = at
		} else if readErr != nil {
			kept[ID(name)] = now
		}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return s.writeFile(arrivalsFile, text)
}

// newerSince returns from which change time on, in nanoseconds, a file is newer than a checkpoint, and whether that has
// arrived from another store.
func (s *Store) newerSince(id ID, m *manifest) (since int64, arrived bool) {
	known, err := s.readArrivals()
	if err != nil {
		return math.MaxInt64, true // nothing is proved
	}
	if at, ok := known[id]; ok {
		return at.UnixNano() + 1, true // a file may have been changed in the same tick of the clock, before
	}
	return m.Began.UnixNano(), false
}
