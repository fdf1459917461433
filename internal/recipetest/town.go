package recipetest

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podagent/podagent/internal/gittest"
)

// Town is what package managers and other programs ask for, served with TLS by names of its own at one
// port of the loopback: one package, p, of each kind.
type Town struct {
	Port  int
	Roots *x509.CertPool
	PEM   string // the roots, for a file
}

// Serve serves a town until the test ends. A function that is not nil may put something in front of
// it, such as who counts requests or asks for a password.
func Serve(t testing.TB, front func(http.Handler) http.Handler) *Town {
	t.Helper()
	var h http.Handler = townHandler(t)
	if front != nil {
		h = front(h)
	}
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	// It names example.com and *.example.com, and is its own root.
	cert := s.Certificate()
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &Town{
		Port: s.Listener.Addr().(*net.TCPAddr).Port, Roots: roots,
		PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
	}
}

// Rules allow the names of the town, each with its address and port, as a user's would.
func (t *Town) Rules() (rules []string) {
	for _, name := range []string{"web", "git", "npm", "go", "pip", "cargo", "gh", "apt"} {
		rules = append(rules, fmt.Sprintf("%s.example.com=127.0.0.1:%d", name, t.Port))
	}
	return rules
}

func townHandler(t testing.TB) *http.ServeMux {
	t.Helper()
	crate := tarball(t, "p-1.0.0/", map[string]string{"Cargo.toml": "[package]\nname=\"p\"\nversion=\"1.0.0\"\nedition=\"2021\"\n", "src/lib.rs": ""})
	mux := http.NewServeMux()
	text := func(pattern, format string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, strings.ReplaceAll(format, "{host}", r.Host))
		})
	}
	data := func(pattern string, content []byte) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	}
	text("web.example.com/", "hello")
	mux.Handle("git.example.com/", gittest.Handler(t, gittest.Repository(t, "hello\n")))
	text("npm.example.com/p", `{"name":"p","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"p","version":"1.0.0","dist":{"tarball":"https://{host}/p.tgz"}}}}`)
	data("npm.example.com/p.tgz", tarball(t, "package/", map[string]string{"package.json": `{"name":"p","version":"1.0.0"}`, "index.js": "module.exports = 'hello'"}))
	text("go.example.com/m.test/@v/v1.0.0.info", `{"Version":"v1.0.0"}`)
	text("go.example.com/m.test/@v/v1.0.0.mod", "module m.test\n")
	data("go.example.com/m.test/@v/v1.0.0.zip", zipped(t, map[string]string{"m.test@v1.0.0/go.mod": "module m.test\n", "m.test@v1.0.0/m.go": "package m\n"}))
	mux.HandleFunc("pip.example.com/simple/p/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/p-1.0.0-py3-none-any.whl">p</a>`)
	})
	data("pip.example.com/p-1.0.0-py3-none-any.whl", pythonWheel(t))
	text("cargo.example.com/config.json", `{"dl":"https://{host}/{crate}.crate"}`)
	text("cargo.example.com/1/p", fmt.Sprintf(`{"name":"p","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(crate)))
	data("cargo.example.com/p.crate", crate)
	text("gh.example.com/api/v3/user", `{"login":"hello"}`)
	deb := debianPackage(t)
	packages := fmt.Sprintf("Package: p\nVersion: 1\nArchitecture: all\nMaintainer: t\nDescription: p\nFilename: ./p_1_all.deb\nSize: %d\nSHA256: %x\n", len(deb), sha256.Sum256(deb))
	text("apt.example.com/Release", fmt.Sprintf("Suite: t\nCodename: t\nSHA256:\n %x %d Packages\n", sha256.Sum256([]byte(packages)), len(packages)))
	text("apt.example.com/Packages", packages)
	data("apt.example.com/p_1_all.deb", deb)
	return mux
}
