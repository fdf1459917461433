package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
)

// toStdout is the value of --audit that leads to standard output.
const toStdout = "-"

// auditKeyUsage is the same for all verbs, as that of every setting.
const auditKeyUsage = "the `FILE` with the key that signs the audit log, Ed25519 in PEM, made by gateway and audit key if it is not there (default podagent/audit.pem in the configuration directory)"

// auditFlags say where a gateway logs what callers do.
type auditFlags struct{ to, key string }

func (f *auditFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.to, "audit", "", "log what callers do into files of this `DIR`, or to standard output (-); no call is made that cannot be logged")
	flags.StringVar(&f.key, "audit-key-file", "", auditKeyUsage)
	settings.Mark(flags, "audit", "audit-key-file")
}

// begin begins the log, if there is to be one. It ends when the returned function is called.
func (f *auditFlags) begin(a *app) (observers []gateway.Observer, end func() error, err error) {
	if f.to == "" {
		return nil, func() error { return nil }, nil
	}
	key, err := madeKey(f.key)
	if err != nil {
		return nil, nil, usageError{err}
	}
	options := audit.Options{Dir: f.to, Key: key, Log: a.logger()}
	if f.to == toStdout {
		options.Out = a.out
	}
	log, err := audit.New(options)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("cannot begin the audit log: %w", err)}
	}
	return []gateway.Observer{log}, log.Close, nil
}

// madeKey returns the key in a file, or in the default one, which is made if it is not there.
func madeKey(path string) (ed25519.PrivateKey, error) {
	path, err := auditKeyPath(path)
	if err == nil {
		err = audit.MakeKey(path)
	}
	if err != nil {
		return nil, err
	}
	return audit.LoadKey(path)
}

func auditKeyPath(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the key of the audit log: %w", err)
	}
	return filepath.Join(dir, "podagent", "audit.pem"), nil
}

func auditCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Check the audit logs of gateways",
		Long: `A gateway with --audit logs what callers do: a line before each call, and one after it. The
lines of a process are a chain that its key signs, so that a change of them shows.`,
		Args: noSuchVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(auditKeyCommand(a), auditVerifyCommand(a))
	return c
}

func auditKeyCommand(a *app) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "key",
		Short: "Print the public half of the key that signs audit logs",
		Long: `Key prints the public half of the key that signs audit logs, and makes the key if there
is none. Keep it where the gateways cannot write: with it, "orchestrator audit verify" checks
their logs.`,
		Args: takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			key, err := madeKey(path)
			if err != nil {
				return usageError{err}
			}
			public := audit.FormatPublicKey(key.Public().(ed25519.PublicKey))
			return a.print(struct {
				Key string `json:"key"`
			}{public}, public+"\n")
		},
	}
	c.Flags().StringVar(&path, "audit-key-file", "", auditKeyUsage)
	settings.Mark(c.Flags(), "audit-key-file")
	return c
}

func auditVerifyCommand(a *app) *cobra.Command {
	var path string
	var public []string
	c := &cobra.Command{
		Use:   "verify FILE|DIR...",
		Short: "Check audit logs, and list what is open in them",
		Long: `Verify checks the audit logs in files, or in all *.jsonl of directories, in any order: of
each process all the files that there are. It says of each process how far its log is signed,
how it ended, and which calls have begun and not ended. It fails if a line was changed, removed,
added or moved. Lines that are not signed yet could be anybody's, and of the end of a log
that is missing nothing tells, but that the log is not closed.

The key is the one in the file of --audit-key-file, or those of --key, which "orchestrator
audit key" prints.`,
		Example: `  orchestrator audit verify /var/log/podagent
  orchestrator audit verify --key 2Rz…= replica-1.jsonl replica-2.jsonl -o json`,
		Args: takes(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			keys, err := publicKeys(public, path)
			if err != nil {
				return usageError{err}
			}
			return a.verifyAudit(keys, args)
		},
	}
	c.Flags().StringVar(&path, "audit-key-file", "", auditKeyUsage)
	c.Flags().StringArrayVar(&public, "key", nil, "the public `KEY` of the logs, in place of the file; may be repeated")
	settings.Mark(c.Flags(), "audit-key-file")
	return c
}

func publicKeys(texts []string, path string) (keys []ed25519.PublicKey, err error) {
	for _, text := range texts {
		key, err := audit.ParsePublicKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	path, err = auditKeyPath(path)
	if err != nil {
		return nil, err
	}
	key, err := audit.LoadKey(path)
	if err != nil {
		return nil, err
	}
	return []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, nil
}

func (a *app) verifyAudit(keys []ed25519.PublicKey, names []string) error {
	files, err := auditFiles(names)
	if err != nil {
		return usageError{err}
	}
	chains, err := audit.Verify(keys, files)
	if err != nil {
		return local(err)
	}
	var all auditSummary
	for _, c := range chains {
		all.add(c)
		if err := a.print(c, chainText(c)); err != nil {
			return err
		}
	}
	if err := a.print(all, all.text()); err != nil {
		return err
	}
	if all.Broken > 0 {
		return errors.New("the audit log is not as it was written")
	}
	return nil
}

// auditFiles returns the files of these names, and those in the directories of these names.
func auditFiles(names []string) (files []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && strings.HasSuffix(e.Name(), audit.Suffix) {
				files = append(files, filepath.Join(name, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no files of audit logs: %w", fs.ErrNotExist)
	}
	return files, nil
}

// auditSummary counts what is in all logs.
type auditSummary struct {
	Chains int    `json:"chains"`
	Broken int    `json:"broken"`
	Lines  uint64 `json:"lines"`
	Signed uint64 `json:"signed"`
	Open   int    `json:"open_calls"`
}

func (s *auditSummary) add(c *audit.Chain) {
	s.Chains++
	if c.Problem != "" {
		s.Broken++
	}
	s.Lines, s.Signed, s.Open = s.Lines+c.Lines, s.Signed+c.Signed, s.Open+len(c.Open)
}

func (s *auditSummary) text() string {
	return fmt.Sprintf("%d chains, %d broken: %d lines, %d of them signed, %d calls open\n", s.Chains, s.Broken, s.Lines, s.Signed, s.Open)
}

// chainText says of a chain in a line what there is to say, and then of each call that is open.
func chainText(c *audit.Chain) string {
	var text strings.Builder
	if c.ID == "" {
		return fmt.Sprintf("no chain: BROKEN: %s\n", c.Problem)
	}
	fmt.Fprintf(&text, "%s of %s (pid %d), %s to %s: %d lines, %d signed, %s", c.ID, c.Host, c.PID,
		c.From.Format(time.RFC3339), c.To.Format(time.RFC3339), c.Lines, c.Signed, stateTexts[c.State])
	if c.Torn > 0 {
		fmt.Fprintf(&text, ", %d there in part", c.Torn)
	}
	if c.Problem != "" {
		fmt.Fprintf(&text, ": BROKEN: %s", c.Problem)
	}
	text.WriteByte('\n')
	for _, o := range c.Open {
		fmt.Fprintf(&text, "  open since %s: %s of %s/%s, sandbox %q, request %s (seq %d)\n",
			o.Time.Format(time.RFC3339), o.Operation, o.Tenant, o.Key, o.Sandbox, o.ID, o.Line)
	}
	return text.String()
}

var stateTexts = map[audit.State]string{
	audit.Closed:  "closed",
	audit.Running: "not closed: it may run",
	audit.Killed:  "not closed: it was killed, or the end is missing",
}
