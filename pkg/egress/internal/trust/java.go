package trust

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Java's programs trust a store of Java's own, which keytool writes. Its password is the
// one of all such stores: they hold no keys.
const javaPassword = "changeit"

// maxLook bounds what a look into a sandbox may answer, and each variable in it.
const maxLook, maxVariable = 64 << 10, 8 << 10

// javaStore is the store of Java in a sandbox.
type javaStore struct {
	from    string // Java's own store; "" without Java
	options string // for JAVA_TOOL_OPTIONS
}

// sights are what a look into a sandbox showed. Code there can make it show anything.
type sights struct {
	roots       string // SSL_CERT_FILE
	javaOptions string // JAVA_TOOL_OPTIONS
	cacerts     string // Java's own store
	temp        string // TMPDIR
}

const lookScript = `
printf 'roots=%s\n' "$SSL_CERT_FILE"
printf 'temp=%s\n' "$TMPDIR"
printf 'options=%s\n' "$JAVA_TOOL_OPTIONS"
java=${JAVA_HOME:+$JAVA_HOME/bin/java}
[ -x "$java" ] || java=$(command -v java) || exit 0
java=$(readlink -f "$java") || exit 0
home=${java%/bin/java}
for home in "$home" "$home/jre"; do
	[ -x "$home/bin/keytool" ] && [ -r "$home/lib/security/cacerts" ] && printf 'cacerts=%s\n' "$home/lib/security/cacerts" && exit 0
done
exit 0
`

// look finds out what the environment of commands says. Without a shell it finds nothing.
func (t *Trust) look(ctx context.Context) (seen sights) {
	out, err := t.run(ctx, "sh", "-c", lookScript)
	if err != nil {
		return seen
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if len(value) > maxVariable || !utf8.ValidString(value) {
			continue
		}
		// What a former far end has set is no part of the image.
		switch {
		case name == "roots" && path.IsAbs(value) && !strings.Contains(value, path.Base(t.dir)):
			seen.roots = value
		case name == "temp" && path.IsAbs(value):
			seen.temp = value
		case name == "options":
			seen.javaOptions = t.withoutOwn(value)
		case name == "cacerts" && path.IsAbs(value):
			seen.cacerts = value
		}
	}
	return seen
}

// withoutOwn returns the options of Java without those that a far end has added.
func (t *Trust) withoutOwn(options string) string {
	before, _, found := strings.Cut(options, trustStoreOption)
	if !found || !strings.Contains(options, path.Base(t.dir)) {
		return options
	}
	return strings.TrimSpace(before)
}

const trustStoreOption = "-Djavax.net.ssl.trustStore="

// makeJavaStore makes a store for Java with its own roots and the CA, where Java is. A
// sandbox without it works, but for Java's programs.
func (t *Trust) makeJavaStore(ctx context.Context, seen sights) javaStore {
	if seen.cacerts == "" {
		return javaStore{}
	}
	if _, err := t.client.Stat(ctx, t.javaFile()); err != nil && t.importIntoJava(ctx, seen.cacerts) != nil {
		return javaStore{}
	}
	options := trustStoreOption + t.javaFile() + " -Djavax.net.ssl.trustStorePassword=" + javaPassword
	return javaStore{from: seen.cacerts, options: strings.TrimSpace(seen.javaOptions + " " + options)}
}

func (t *Trust) javaFile() string { return t.file("java") }

const importScript = `
unset JAVA_TOOL_OPTIONS
new=$3.$$
trap 'rm -f "$new"' EXIT
cp "$1" "$new" && chmod u+w "$new" || exit
"${1%/lib/security/cacerts}/bin/keytool" -importcert -noprompt -alias podagent-egress -file "$2" -keystore "$new" -storepass "$4" || exit
mv "$new" "$3"
`

func (t *Trust) importIntoJava(ctx context.Context, cacerts string) error {
	_, err := t.run(ctx, "sh", "-c", importScript, "sh", cacerts, t.caFile(), t.javaFile(), javaPassword)
	return err
}

// run runs a program in the sandbox, and returns its output. It leaves none of it in the
// list of processes.
func (t *Trust) run(ctx context.Context, args ...string) (string, error) {
	cmd := t.client.Command(ctx, args[0], args[1:]...)
	out := &headBuffer{}
	cmd.Stdout, cmd.Dir, cmd.Timeout = out, "/", timeLimit
	err := cmd.Run()
	if cmd.Process != nil {
		_ = t.client.Forget(context.WithoutCancel(ctx), cmd.ID) // else it stays for a while
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", args[0], err)
	}
	return string(out.kept), nil
}

// headBuffer keeps the first maxLook bytes, and fails after these.
type headBuffer struct{ kept []byte }

func (b *headBuffer) Write(p []byte) (int, error) {
	n := min(len(p), maxLook-len(b.kept))
	b.kept = append(b.kept, p[:n]...)
	if n < len(p) {
		return n, errTalkative
	}
	return n, nil
}

var errTalkative = errors.New("it says too much")
