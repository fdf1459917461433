package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// A journal says that a restore is under way, or that it was given up.
type journal struct {
	Target ID       `json:"target"`
	Before ID       `json:"before"`
	Paths  [][]byte `json:"paths,omitempty"`
	// Token is in the names of all that the restore stages.
	Token string `json:"token,omitempty"`
	// Populate says that Populate makes the tree. That may be forged: who recovers leaves what is protected as it is.
	Populate bool `json:"populate,omitempty"`
	// fresh is the restorer's, for an undo by the process that wrote the journal, and appeared its keptPaths. The file has neither.
	fresh    bool
	appeared map[Hash]bool
	// Why says why it was given up, if there was room to say so.
	Why string `json:"why,omitempty"`
}

const (
	// maxReason bounds Why, in bytes.
	maxReason = 1000
	// maxPaths and maxPathBytes bound the paths of a restore, which compares each file with each of them.
	maxPaths     = 1000
	maxPathBytes = 64 << 10
	// maxJournal bounds the text of a journal, which has paths in base64 and may have a byte of Why in six.
	maxJournal = 2*maxPathBytes + 16*maxPaths + 6*maxReason + 1<<10
)

func newJournal(target, before ID, paths []string, token string) *journal {
	j := &journal{Target: target, Before: before, Token: token}
	for _, p := range paths {
		j.Paths = append(j.Paths, []byte(p))
	}
	return j
}

func (j *journal) paths() (paths []string) {
	for _, p := range j.Paths {
		paths = append(paths, string(p))
	}
	return paths
}

// writeJournal makes or replaces the journal, and waits until it is on the disk.
func (s *Store) writeJournal(j *journal) error {
	text, err := json.Marshal(j)
	if err == nil {
		err = s.writeFile(journalFile, text)
	}
	if err == nil {
		err = s.syncNames()
	}
	return err
}

// readJournal returns the journal in one of the two files for it, nil if there is none. What no restore writes is
// [ErrCorrupt].
func (s *Store) readJournal(name string) (*journal, error) {
	text, err := s.readFile(name, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeJournal(text)
}

func decodeJournal(text []byte) (*journal, error) {
	j := new(journal)
	err := json.Unmarshal(text, j)
	for _, id := range []ID{j.Target, j.Before} {
		if err == nil {
			_, err = ParseID(string(id))
		}
	}
	if j.Token == "" { // as earlier versions wrote it
		j.Token = newToken()
	}
	if err == nil && !isToken(j.Token) {
		err = fmt.Errorf("it has the token %.20q", j.Token)
	}
	if err == nil {
		_, err = newScope(j.paths())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the journal of a restore: %w", ErrCorrupt, err)
	}
	j.Why = shorten(j.Why)
	return j, nil
}

// shorten makes a reason one line of up to maxReason bytes.
func shorten(why string) string {
	why = strings.Join(strings.Fields(why[:min(len(why), maxReason)]), " ")
	return strings.ToValidUTF8(why, "")
}

// endJournal forgets the restore that was under way, and one that was given up. Once it returns, no crash of the
// machine brings a journal back, by which the next process would change what others have made since.
func (s *Store) endJournal() error {
	err := errors.Join(s.remove(journalFile), s.remove(unfinishedFile))
	return errors.Join(err, s.syncNames())
}

// syncNames waits until the names of the store's own files are on the disk.
func (s *Store) syncNames() error {
	dir, err := os.Open(s.path("."))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// giveUp ends the tries to complete or undo a restore. That needs no room.
func (s *Store) giveUp(j *journal, why error) error {
	j.Why = shorten(why.Error())
	_ = s.writeJournal(j) // otherwise it does not say why
	return s.setAside(why)
}

// setAside renames the journal to unfinished: no recovery acts on it, only a caller who decides.
func (s *Store) setAside(why error) error {
	err := s.rename(s.path(journalFile), unfinishedFile)
	return errors.Join(fmt.Errorf("%w: %w", ErrUnfinished, why), err, s.syncNames())
}

// undecided returns the journal of a restore that is neither complete nor undone, nil if there is none. Without either
// of its checkpoints there is nothing to decide.
func (s *Store) undecided() (*journal, error) {
	for _, name := range []string{journalFile, unfinishedFile} {
		j, err := s.readJournal(name)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		if j != nil && (s.hasManifest(j.Target) || s.hasManifest(j.Before)) {
			return j, nil
		}
	}
	return nil, nil
}

// nextToken returns the token of a restore that begins. One of everything has that of a restore that was given up, so that it
// finds what that has staged.
func (s *Store) nextToken() string {
	if j, err := s.undecided(); err == nil && j != nil {
		return j.Token
	}
	return newToken()
}

func (s *Store) hasManifest(id ID) bool {
	_, err := os.Lstat(s.manifestPath(id))
	return err == nil
}

// checkDecided returns [ErrUnfinished] while there is a restore that is neither complete nor undone.
func (s *Store) checkDecided() error {
	j, err := s.undecided()
	if j == nil || err != nil {
		return err
	}
	return fmt.Errorf("%w: each file that it was for may be as in checkpoint %s, or as before, in %s: restore everything from one of them, or remove one to keep the files as they are (%q)",
		ErrUnfinished, j.Target, j.Before, j.Why)
}

// decide forgets a restore that is neither complete nor undone, once one of its checkpoints is gone.
func (s *Store) decide(gone ID) error {
	j, err := s.undecided()
	if j == nil || err != nil || j.Target != gone && j.Before != gone {
		return err
	}
	return s.endJournal()
}

// needed returns the checkpoints that are needed to decide about a restore.
func (s *Store) needed() ([]ID, error) {
	j, err := s.undecided()
	if j == nil || err != nil {
		return nil, err
	}
	return []ID{j.Target, j.Before}, nil
}
