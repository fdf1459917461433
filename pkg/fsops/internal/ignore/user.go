package ignore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// user has the rules that the user of this process has for all directories.
type user struct {
	// file is where the rules are; empty for none.
	file  string
	rules Rules
}

// newUser finds the file that core.excludesFile names in the configurations of
// the system and the user, or git's default, and reads it.
func (d *Dir) newUser() (user, error) {
	var u user
	config := configDir()
	if config != "" {
		u.file = filepath.Join(config, "ignore")
	}
	for _, path := range configFiles(config) {
		if file, ok := excludesFile(path); ok {
			u.file = file
		}
	}
	if !filepath.IsAbs(u.file) { // it is relative to a repository
		return u, nil
	}
	var err error
	u.rules, err = d.loadUser(u.file)
	return u, err
}

// userRules returns the user's rules for the repository at path. Its own configuration,
// in the directory git, has precedence.
func (d *Dir) userRules(path, git string) (Rules, error) {
	u := &d.user
	file, ok := excludesFile(filepath.Join(git, "config"))
	if !ok {
		file = u.file
	}
	switch {
	case file == "":
		return Rules{}, nil
	case file == u.file && filepath.IsAbs(file):
		return u.rules, nil
	}
	return d.loadUser(join(path, file))
}

// loadUser reads the user's rules. It is no error if they may not be read: a
// process that has changed its user keeps the other user's HOME.
func (d *Dir) loadUser(path string) (Rules, error) {
	rules, err := d.load(path, os.Stat)
	if errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return rules, err
}

// configDir returns where the user's configuration of git is (git-config(1)),
// empty if that is unknown.
func configDir() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "git")
	}
	if home := os.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "git")
	}
	return ""
}

// configFiles returns the files that git reads for every repository, in their
// order.
func configFiles(config string) []string {
	var files []string
	switch system, set := os.LookupEnv("GIT_CONFIG_SYSTEM"); {
	case isTrue(os.Getenv("GIT_CONFIG_NOSYSTEM")):
	case set:
		files = append(files, system)
	default:
		files = append(files, "/etc/gitconfig")
	}
	if global, set := os.LookupEnv("GIT_CONFIG_GLOBAL"); set {
		return append(files, global)
	}
	if config != "" {
		files = append(files, filepath.Join(config, "config"))
	}
	if home := os.Getenv("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}
	return files
}

// isTrue reads a boolean as git does, which also knows numbers.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// excludesFile returns the value of core.excludesFile in a file of git's configuration,
// if it has one.
func excludesFile(path string) (string, bool) {
	text, err := readFile(path, os.Stat)
	if err != nil {
		return "", false
	}
	file, ok := configValue(string(text), "core", "excludesfile")
	if rest, tilde := strings.CutPrefix(file, "~/"); tilde {
		file = filepath.Join(os.Getenv("HOME"), rest)
	}
	return file, ok
}
