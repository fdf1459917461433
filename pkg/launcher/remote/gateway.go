package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// ErrUnencrypted says that a URL with http names another machine, and AllowHTTP is not set.
var ErrUnencrypted = errors.New("the token would travel unencrypted")

// ready prepares the first call, and says what is wrong with the fields.
func (l *Launcher) ready() error {
	l.setUp.Do(func() { l.wrong = l.prepare() })
	return l.wrong
}

func (l *Launcher) prepare() error {
	u, err := url.Parse(l.URL)
	switch {
	case l.URL == "":
		return errors.New("there is no URL of a gateway")
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%.200q is not the URL of a gateway, such as https://gateway.example.com", l.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("the URL of a gateway has a host, and perhaps a port, but nothing else: %s://%s", u.Scheme, u.Host)
	case u.Scheme == "http" && !l.AllowHTTP && !isLoopback(u.Hostname()):
		return fmt.Errorf("%w to %s: use https", ErrUnencrypted, u.Host)
	}
	l.base, l.secure = u.Scheme+"://"+u.Host, u.Scheme == "https"
	l.host = u.Host
	if u.Port() == "" {
		l.host = net.JoinHostPort(u.Hostname(), map[bool]string{false: "80", true: "443"}[l.secure])
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = headerLimit
	transport.Proxy = nil // the calls in sandboxes pass none either
	if l.TLS != nil {
		transport.TLSClientConfig = l.TLS.Clone()
	}
	l.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this host
	}
	return nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// token returns what the gateway knows the caller by.
func (l *Launcher) token() (string, error) {
	token := l.Token
	if l.TokenFile != "" {
		file, err := os.Open(l.TokenFile)
		if err != nil {
			return "", fmt.Errorf("cannot read the token: %w", err)
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, tokenLimit+1))
		if err != nil {
			return "", fmt.Errorf("cannot read the token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token == "" || len(token) > tokenLimit || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errors.New("the token of the gateway is empty or too long, or has other characters than those of a header")
	}
	return token, nil
}
