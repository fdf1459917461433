package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
)

// maxCredentials bounds the credentials on standard input, in bytes: tokens have some
// hundreds, signed ones some thousands.
const maxCredentials = 64 << 10

// credentials come as JSON from standard input, because other processes can read
// arguments and the environment.
type credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// checkOut puts a git repository into a directory.
func checkOut(ctx context.Context, args []string, stdout io.Writer) error {
	// Other processes must not read them from memory, either.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	var o checkout.Options
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	flags.StringVar(&o.Dir, "dir", ".", "check out in `DIR`")
	flags.StringVar(&o.URL, "url", "", "the `URL` of the repository")
	flags.StringVar(&o.Ref, "ref", "", "the `REF` to check out: a branch, a tag or a commit (default the remote's HEAD)")
	synopsis := "checkout --url URL [flags]\n\n" +
		"Checkout reads credentials from standard input, if there are any, as\n" +
		`{"username": "...", "password": "..."}. It prints the result as a line of JSON.`
	if err := parse(flags, args, synopsis, stdout); err != nil {
		return err
	}
	if o.URL == "" || flags.NArg() > 0 {
		return usageError{errors.New("checkout needs a URL, and nothing beside its flags: podagent checkout --url URL")}
	}
	if err := readCredentials(os.Stdin, &o); err != nil {
		return err
	}
	result, err := checkout.Run(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}

// readCredentials reads the credentials, unless there are none.
func readCredentials(stdin *os.File, o *checkout.Options) error {
	if info, err := stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return nil // a terminal, or /dev/null
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxCredentials))
	if err != nil || len(data) == 0 {
		return err
	}
	var c credentials
	// The error would quote what it could not read.
	if json.Unmarshal(data, &c) != nil {
		return errors.New(`cannot read the credentials from standard input: they are not {"username": "...", "password": "..."}`)
	}
	o.Username, o.Password = c.Username, c.Password
	return nil
}
