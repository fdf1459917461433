package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
)

// The lines around what --install has put into a configuration of ssh.
const (
	sshBlockBegin = "# Written by \"orchestrator ssh-config --install\": it replaces these lines.\n"
	// Match all has what follows count for all hosts again.
	sshBlockEnd = "Match all\n# End of what orchestrator has written.\n"
)

func sshConfigCommand(a *app) *cobra.Command {
	var install bool
	cmd := &cobra.Command{
		Use:   "ssh-config [--install]",
		Short: "Configure ssh, and what uses it, for sandboxes",
		Long: `Ssh-config prints a block for ssh's configuration, so that ID.podagent is a host for ssh,
scp, sftp, rsync, git and editors, and ID+NAME.podagent the same with a named terminal
(see "orchestrator ssh"). The block has the backend, the namespace, the gateway and the
other settings that say where the sandboxes are, as they are now, and not the token of a
gateway: give that in a file (--gateway-token-file), or in the environment of ssh.

The host key is pinned: it follows from the identity, or is the user's own for the
backends local and remote. While an identity is rotated, the old and the new key count.

With --install, the block goes into ~/.ssh/config, in front of everything else, and
replaces the one that is there. What else is in the file stays as it is.`,
		Example: `  orchestrator ssh-config --install --backend local
  ssh job-1.podagent
  rsync -a src/ job-1.podagent:src/
  git clone job-1.podagent:repo`,
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.sshConfig(cmd)
			if err != nil {
				return err
			}
			if !install {
				return a.print(struct {
					Config string `json:"config"`
				}{c.block()}, c.block())
			}
			path, err := installSSH(c.block())
			if err != nil {
				return local(err)
			}
			return a.print(struct {
				Path string `json:"path"`
			}{path}, path+"\n")
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "put the block into ~/.ssh/config")
	return cmd
}

// sshConfig is how ssh reaches the sandboxes of one launcher.
type sshConfig struct {
	program    []string // this one, with the flags that say where the sandboxes are
	knownHosts string   // the path of a file
	// scope is a user's name that is another for each launcher. Nobody logs in by it, but ssh
	// shares connections by host and user, and ids are the same in several namespaces.
	scope string
	// system is the operating system that ssh runs on, as in runtime.GOOS.
	system string
}

// sshConfig returns how ssh reaches the sandboxes that the flags mean, and pins the host keys.
func (a *app) sshConfig(cmd *cobra.Command) (*sshConfig, error) {
	l, err := a.launcher()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, local(err)
	}
	flags, err := a.placeFlags(cmd)
	if err != nil {
		return nil, err
	}
	dir, err := sshDir()
	if err != nil {
		return nil, local(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(flags, "\x00")))
	scope := hex.EncodeToString(sum[:4])
	c := &sshConfig{program: append([]string{self}, flags...), knownHosts: filepath.Join(dir, "known_hosts-"+scope), scope: "podagent-" + scope, system: runtime.GOOS}
	if err := c.check(); err != nil {
		return nil, local(err)
	}
	keys, err := hostKeys(cmd.Context(), l)
	if err != nil {
		return nil, err
	}
	return c, writeKnownHosts(c.knownHosts, keys)
}

// check returns an error if a file of ssh's configuration cannot have this one. In the name of a file ssh
// replaces ${NAME}, for which there is no other form, and versions of ssh differ in how a double quote or a
// backslash is written. A line that ends too early would break the file for all hosts.
func (c *sshConfig) check() error {
	for _, w := range append(slices.Clone(c.program), c.knownHosts) {
		if strings.ContainsFunc(w, unicode.IsControl) {
			return fmt.Errorf("the configuration of ssh cannot have %q in it", w)
		}
	}
	if strings.Contains(c.knownHosts, `"`) || strings.Contains(c.knownHosts, "${") || c.system != "windows" && strings.Contains(c.knownHosts, `\`) {
		return fmt.Errorf("ssh cannot read known hosts from %q: set XDG_STATE_HOME to a directory without quotes, backslashes and ${", c.knownHosts)
	}
	return nil
}

// notOfPlace are the settings that do not say where sandboxes are; nor are the flags for new local
// sandboxes.
var notOfPlace = []string{"output", "log-level", "config"}

// placeFlags returns the flags, as arguments, that say where the sandboxes are.
func (a *app) placeFlags(cmd *cobra.Command) (flags []string, err error) {
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		given := settings.Given(f) && settings.IsFor(f, a.backend.Value) && f.Value.String() != ""
		if f.Name != "backend" && !given || slices.Contains(notOfPlace, f.Name) || a.local.flags.Lookup(f.Name) != nil {
			return
		}
		value := f.Value.String()
		switch f.Name {
		case "kubeconfig", "identity", "gateway-token-file", "gateway-ca":
			path, absErr := filepath.Abs(value)
			value, err = path, errors.Join(err, absErr)
		}
		flags = append(flags, "--"+f.Name+"="+value)
	})
	return flags, local(err)
}

// proxy returns the ProxyCommand for a sandbox, whose name is a word for a shell.
func (c *sshConfig) proxy(word string, flags ...string) string {
	var words []string
	for _, w := range slices.Concat(c.program, []string{"ssh", "--stdio", "--known-hosts", c.knownHosts}, flags) {
		words = append(words, c.word(w))
	}
	return strings.Join(append(words, "--", word), " ")
}

// blockProxy returns the ProxyCommand of the block, in which ssh puts the host's name.
func (c *sshConfig) blockProxy() string { return c.proxy(wordFor(c.system, "%n")) }

// word returns s as a word of a ProxyCommand.
func (c *sshConfig) word(s string) string {
	return wordFor(c.system, strings.ReplaceAll(s, "%", "%%"))
}

// wordFor quotes a word of a ProxyCommand, in which ssh has yet to replace what begins with a percent sign.
// A shell reads it, but on Windows: there the program gets the line, and only double quotes count.
func wordFor(system, s string) string {
	if system != "windows" {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	s = strings.ReplaceAll(s, `"`, `\"`)
	end := s[len(strings.TrimRight(s, `\`)):] // a backslash in front of the quote needs one itself
	return `"` + s + end + `"`
}

// settings returns the options of ssh for all sandboxes, as NAME VALUE.
func (c *sshConfig) settings() []string {
	return []string{
		"User " + c.scope,
		"HostKeyAlias " + knownHost,
		`UserKnownHostsFile "` + strings.ReplaceAll(c.knownHosts, "%", "%%") + `"`,
		"GlobalKnownHostsFile none",
		"StrictHostKeyChecking yes",
		"UpdateHostKeys no",
		// The fastest: this program computes ssh's first choice, ChaCha20, without the processor's help.
		"Ciphers aes128-gcm@openssh.com,aes256-gcm@openssh.com",
		"ForwardAgent no",
		"ForwardX11 no",
	}
}

// notInHosts are bytes that no name of a sandbox's host has, and that can mean something to a shell,
// also to one that is not of POSIX. Patterns of ssh cannot have asterisks, question marks and double
// quotes as such: they mean nothing in single quotes. Versions of ssh before 9.6 have the ProxyCommand
// run with whatever a host's name is, and that may come from others, such as the address of a submodule
// of git (CVE-2023-51385).
const notInHosts = "'`\\$!;&|<>(){}[]~#%^=,:@/ "

// hostPatterns returns the patterns of the names for which ssh uses the block. In double quotes all
// versions of ssh take a single one as it is.
func hostPatterns() string {
	patterns := []string{"*" + sshHost}
	for _, c := range notInHosts {
		patterns = append(patterns, `"!*`+string(c)+`*"`)
	}
	return strings.Join(patterns, " ")
}

// block returns the block for a file of ssh's configuration.
func (c *sshConfig) block() string {
	lines := []string{"Host " + hostPatterns(), "    ProxyCommand " + c.blockProxy()}
	for _, s := range c.settings() {
		lines = append(lines, "    "+s)
	}
	return strings.Join(lines, "\n") + "\n"
}

// options returns the arguments of ssh for one sandbox.
func (c *sshConfig) options(id, session string) []string {
	var flags []string
	if session != "" {
		flags = []string{"--session", session}
	}
	args := []string{"-o", "ProxyCommand=" + c.proxy(c.word(id), flags...)}
	for _, s := range c.settings() {
		name, value, _ := strings.Cut(s, " ")
		args = append(args, "-o", name+"="+value)
	}
	return args
}

// host returns the host's name for a sandbox: one that ssh takes, and that means the same as in
// the block, or one of its own.
func (c *sshConfig) host(id, session string) string {
	name := id
	if session != "" {
		name += "+" + session
	}
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	if id != "" && id[0] != '-' && len(name) < 200 && strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0 {
		return name + sshHost
	}
	sum := sha256.Sum256([]byte(name))
	return "sandbox-" + hex.EncodeToString(sum[:8]) + sshHost
}

// installSSH puts the block into the user's configuration of ssh, and returns its path.
func installSSH(block string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(home, ".ssh", "config")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	path, err = followed(path) // a link stays
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	rest, err := withoutBlock(string(data))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return path, putFile(path, []byte(sshBlockBegin+block+sshBlockEnd+rest), os.Rename)
}

// followed returns the path of the file that a path leads to by links, whether there is one or not. The
// directory has to be there.
func followed(path string) (string, error) {
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, filepath.Base(path))
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", &fs.PathError{Op: "readlink", Path: path, Err: errors.New("too many links")}
}

// maxLinks bounds the links that lead to one file, as Linux does.
const maxLinks = 40

// withoutBlock returns a configuration without the block that --install has put there.
func withoutBlock(text string) (string, error) {
	before, from, found := strings.Cut(text, sshBlockBegin)
	if !found {
		return text, nil
	}
	_, after, found := strings.Cut(from, sshBlockEnd)
	if !found {
		return "", errors.New("the end of what orchestrator has written is missing: remove the beginning, too")
	}
	return before + after, nil
}
