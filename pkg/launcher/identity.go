package launcher

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// identityFile returns the identity in a file, and creates it on first use: see
// [Kubernetes].
func identityFile(path string) (ring, error) {
	path, err := identityPath(path)
	if err != nil {
		return nil, err
	}
	versions, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeIdentity(path); err != nil {
			return nil, fmt.Errorf("cannot make an identity: %w", err)
		}
		versions, err = readIdentity(path)
	}
	if err != nil {
		return nil, err
	}
	return newRing(versions)
}

// identityPath returns the path of the file, or the default path. A link is followed: what it
// leads to is replaced, and not the link.
func identityPath(path string) (string, error) {
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("cannot find the identity: %w", err)
		}
		path = filepath.Join(dir, "podagent", "identity.pem")
	}
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		return followed, nil
	}
	return path, nil
}

// readIdentity returns all versions of the identity in a file.
func readIdentity(path string) ([]keyVersion, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file, but %v", path, info.Mode().Type())
	}
	if err := fsops.CheckPrivate(info); err != nil {
		return nil, fmt.Errorf("the identity in %s is not yours alone: %w: chmod 600 it, or make another (a mounted Secret takes the defaultMode 0440, and no fsGroup if its reader is root)", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	versions, err := parseVersions(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return versions, err
}

// makeIdentity creates an identity at path, unless one exists by then. If several
// programs do this at once, all use the first.
func makeIdentity(path string) error {
	id, err := podapi.NewIdentity()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err = writeVersions(path, []keyVersion{{Identity: id, number: 1, created: time.Now()}}, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeVersions writes versions of an identity into a file beside path, and lets put move
// that to path.
func writeVersions(path string, versions []keyVersion, put func(from, to string) error) error {
	data, err := formatVersions(versions)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".identity-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := put(f.Name(), path); err != nil {
		return err
	}
	return fsops.SyncDir(filepath.Dir(path)) // otherwise a crash could lose a key that agents know already
}

// The headers of a version in a file. One that has none is the first.
const (
	headerVersion  = "Version"
	headerCreated  = "Created"
	headerExpires  = "Expires"
	headerRetiring = "Retiring" // since then
)

// parseVersions returns the versions of an identity: PEM blocks, one after the other.
func parseVersions(data []byte) (versions []keyVersion, err error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil && len(versions) > 0 {
			return versions, nil
		}
		v := keyVersion{number: 1}
		if v.Identity, err = podapi.ParseIdentity(data); err != nil {
			return nil, err
		}
		if err := v.setHeaders(block.Headers); err != nil {
			return nil, err
		}
		versions = append(versions, v)
		data = rest
	}
}

func (v *keyVersion) setHeaders(headers map[string]string) (err error) {
	if text := headers[headerVersion]; text != "" {
		if v.number, err = strconv.Atoi(text); err != nil || v.number < 1 {
			return fmt.Errorf("the version %q is not a positive number", text)
		}
	}
	for name, t := range map[string]*time.Time{headerCreated: &v.created, headerExpires: &v.expires, headerRetiring: &v.retiring} {
		if text := headers[name]; text != "" {
			if *t, err = time.Parse(time.RFC3339, text); err != nil {
				return fmt.Errorf("version %d of the identity: %w", v.number, err)
			}
		}
	}
	return nil
}

// formatVersions is the opposite of parseVersions. A program that knows of no versions sees
// only the first.
func formatVersions(versions []keyVersion) ([]byte, error) {
	var data []byte
	for _, v := range versions {
		text, err := v.MarshalPEM()
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		block.Headers = map[string]string{headerVersion: strconv.Itoa(v.number)}
		for name, t := range map[string]time.Time{headerCreated: v.created, headerExpires: v.expires, headerRetiring: v.retiring} {
			if !t.IsZero() {
				block.Headers[name] = t.UTC().Format(time.RFC3339)
			}
		}
		data = append(data, pem.EncodeToMemory(block)...)
	}
	return data, nil
}
