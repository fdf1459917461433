//go:build !race

package egress

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/internal/recipetest"
)

// door lets in who has a value: as a bearer, as the password of Basic, or by itself.
type door struct {
	value string

	mu    sync.Mutex
	letIn int // requests
}

func (d *door) front(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		if _, password, _ := r.BasicAuth(); password != d.value && !slices.Contains([]string{d.value, "Bearer " + d.value, "token " + d.value}, header) {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "not let in", http.StatusUnauthorized)
			return
		}
		d.mu.Lock()
		d.letIn++
		d.mu.Unlock()
		if r.URL.Path == "/config.json" { // cargo's: it sends tokens to registries that say so
			fmt.Fprintf(w, `{"dl":"https://%s/{crate}.crate","auth-required":true}`, r.Host)
			return
		}
		inside.ServeHTTP(w, r)
	})
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.letIn
}

// user puts the placeholder into URLs as a password, and works with recipes that are not changed for it.
const user = `HOST=me:$TOKEN@$HOST && `

// credentialRecipe is a recipe with a credential, for a program that trusts the CA by a variable.
type credentialRecipe struct {
	variable string
	program  string
	before   string // the script of the program's recipe
	script   string // in place of it, if not empty
}

var credentialRecipes = []credentialRecipe{
	{"CURL_CA_BUNDLE", "curl", user, ""},
	{"SSL_CERT_FILE", "curl", user, ""},
	{"GIT_SSL_CAINFO", "git", user, ""},
	{"SSL_CERT_FILE", "go", user, ""},
	{"PIP_CERT", "pip", user, ""},
	{"CARGO_HTTP_CAINFO", "cargo", `export CARGO_REGISTRIES_T_TOKEN=$TOKEN CARGO_REGISTRIES_T_CREDENTIAL_PROVIDER=cargo:token && `, ""},
	{"SSL_CERT_FILE", "gh", "", ""},
	{"NODE_EXTRA_CA_CERTS", "npm", `export npm_config_fetch_retries=0 && echo "//$HOST:$PORT/:_authToken=$TOKEN" >.npmrc && `, ""},
	{"NODE_EXTRA_CA_CERTS", "node", "", `node -e 'const {HOST, PORT, TOKEN} = process.env
fetch("https://" + HOST + ":" + PORT + "/", {headers: {Authorization: "Bearer " + TOKEN}}).then(r => r.text()).then(console.log)'`},
	{"SSL_CERT_FILE", "python3", "", `python3 -c '
import os, urllib.request as r
url, token = "https://{HOST}:{PORT}/".format(**os.environ), os.environ["TOKEN"]
print(r.urlopen(r.Request(url, headers={"Authorization": "Bearer " + token})).read().decode())'`},
	{"REQUESTS_CA_BUNDLE", "python3", "", `python3 -c '
import os
try:
	import requests
except ImportError:
	import pip._vendor.requests as requests
print(requests.get("https://{HOST}:{PORT}/".format(**os.environ), auth=("me", os.environ["TOKEN"])).text)'`},
}

// Each program trusts the CA by the one variable that is for it, and uses a credential that it
// does not have. Without the variable it trusts nobody, and sends nothing.
func TestRecipesWithACredentialTrustTheCAByOneVariable(t *testing.T) {
	d := &door{value: "value-of-the-credential"}
	town := recipetest.Serve(t, d.front)
	secret := Secret{Name: "TOKEN", Value: []byte(d.value)}
	for _, rule := range town.Rules() {
		name, _, _ := strings.Cut(rule, "=")
		secret.Hosts = append(secret.Hosts, policyOf(t, fmt.Sprintf("%s:%d", name, town.Port)).Allow...)
	}
	h := newHouse(t, Options{Secrets: []Secret{secret}, Roots: town.Roots}, town.Rules()...)
	env := []string{"PATH=" + recipetest.Node(t) + "/.bin:" + os.Getenv("PATH"), "RUSTUP_HOME=" + rustup()}
	for _, r := range credentialRecipes {
		t.Run(r.program+" by "+r.variable, func(t *testing.T) {
			needProgram(t, r.program)
			r.check(t, h, d, town.Port, env)
		})
	}
}

// only unsets what a far end has set to have programs trust it, but for one variable.
const only = `unset $(env | grep podagent-egress- | cut -d= -f1 | grep -vx "%s") && `

func (r *credentialRecipe) check(t *testing.T, h *house, d *door, port int, env []string) {
	at := slices.IndexFunc(recipetest.Recipes, func(other recipetest.Recipe) bool { return other.Program == r.program })
	recipe := recipetest.Recipes[at]
	script := r.script
	if script == "" {
		script = recipe.Script
	}
	before := d.count()
	out, err := recipetest.Run(t.Context(), h.Client, fmt.Sprintf(only, r.variable)+r.before+script, recipe.Host, port, env...)
	if err != nil || strings.TrimSpace(out) != recipe.Want {
		t.Errorf("%v:\n%s", err, out)
	}
	if d.count() == before {
		t.Error("the server did not see the value")
	}
	before = d.count()
	without, err := recipetest.Run(t.Context(), h.Client, fmt.Sprintf(only, "NONE")+r.before+script, recipe.Host, port, env...)
	if err == nil || d.count() != before {
		t.Errorf("without the variable: %v, and the server saw the value %d times:\n%s", err, d.count()-before, without)
	}
	if strings.Contains(out+without, d.value) {
		t.Error("the program has the value")
	}
}

// Each of the variables names a file with the far end's CA, and those that stand in for the roots of
// the image name one with the roots, too.
func TestTrustVariablesNameTheCA(t *testing.T) {
	h := newHouse(t, Options{Secrets: []Secret{{Name: "TOKEN", Value: []byte("value-of-the-credential"), Hosts: policyOf(t, "api.example.com").Allow}}})
	for name, roots := range map[string]bool{
		"SSL_CERT_FILE": true, "REQUESTS_CA_BUNDLE": true, "CURL_CA_BUNDLE": true, "GIT_SSL_CAINFO": true,
		"PIP_CERT": true, "CARGO_HTTP_CAINFO": true, "AWS_CA_BUNDLE": true,
		"NODE_EXTRA_CA_CERTS": false, "DENO_CERT": false,
	} {
		out, err := h.Command(t.Context(), "sh", "-c", fmt.Sprintf(`cat "$%s"`, name)).Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		own, others := authoritiesIn(out)
		if own != 1 || (others > 0) != roots {
			t.Errorf("%s has %d times the far end's CA, and %d others", name, own, others)
		}
	}
}

// authoritiesIn counts the certificates of far ends in a text, and the other ones.
func authoritiesIn(text []byte) (own, others int) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return own, others
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && strings.HasPrefix(cert.Subject.CommonName, "podagent egress ") {
			own++
		} else {
			others++
		}
	}
}
