package e2e

// The ways out of a pod by its proxy, for which TestNothingLeavesAPod has a far end with these rules.

// The names of servers of the test's. All are at a port of their own.
var egressRules = []string{
	"plain.test={plain}", "secure.test={secure}", "opened.test={secure}",
	"rebinding.test:{plainport}", "{named}", "*.wild.test:443",
}

const (
	noRule   = "Egress denied: no rule allows "
	noHost   = "400 Bad Request"
	fronting = "can be asked in the hello for the allowed one, and later for another: in a request"
)

// ofRequest is a try of a request to the proxy, whose lines end with \r\n.
func ofRequest(lines string) string {
	return `say ` + lines + `Connection: close\r\nX-Try: NAME\r\n\r\n`
}

// ofSOCKS is a try of a request of SOCKS5, from its command on.
func ofSOCKS(request string) string { return `say \x05\x01\x00\x05` + request }

// egressProxyWays are rare, as open pods have no proxy.
var egressProxyWays = []egressWay{
	{name: "a host without a rule", try: "connect evil.test:443", want: noRule + "evil.test"},
	{name: "an address without a rule", try: "connect {node}", want: noRule},
	{name: "a port without a rule", try: "connect plain.test:22", want: "not with port 22"},
	{name: "a host without a rule, by plain HTTP", try: "get http://evil.test/", want: noRule + "evil.test"},
	{name: "a host without a rule, by HTTPS", try: "get https://evil.test/", want: noRule + "evil.test"},
	{name: "HTTPS by a plain request", try: ofRequest(`GET https://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n`), want: noHost},
	{name: "another scheme", try: ofRequest(`GET ftp://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n`), want: noHost},
	{name: "a request without a URL", try: ofRequest(`GET / HTTP/1.1\r\nHost: plain.test\r\n`), want: noHost},
	{
		name: "a request behind an allowed one", want: noRule + "evil.test",
		try: ofRequest(`GET http://plain.test:{plainport}/ HTTP/1.1\r\nHost: plain.test\r\n\r\nGET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n`),
	},
	{
		name: "a request within the body of an allowed one", want: "for plain.test",
		try: ofRequest(`POST http://plain.test:{plainport}/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET http://evil.test/ HTTP/1.1\r\n`),
	},

	{name: "a redirect to the metadata", try: "get http://plain.test:{plainport}/to/http://169.254.169.254/latest/meta-data/", want: noRule + "169.254.169.254"},
	{name: "a redirect to the metadata by HTTPS", try: "get http://plain.test:{plainport}/to/https://169.254.169.254/", want: noRule + "169.254.169.254"},
	{name: "a redirect to another host", try: "get http://plain.test:{plainport}/to/http://evil.test/", want: noRule + "evil.test"},
	{name: "a redirect to the API server", try: "get http://plain.test:{plainport}/to/https://{api}/", want: noRule},

	{name: "a name that moves", try: "rebind rebinding.test:{plainport}", want: "rebinding.test resolves to an address that is loopback"},
	{name: "a name at an address that is not public", try: "connect metadata.wild.test:443", want: "resolves to an address that is link-local"},
	{name: "a tunnel by names without a rule", try: "connect c2VjcmV0.evil.test:443", want: noRule + "c2vjcmv0.evil.test"},
	{name: "a tunnel by names below a wildcard", try: "connect c2VjcmV0.wild.test:443", want: "no such host", all: "Names below a wildcard"},

	{name: "an address in octal", try: "connect 0177.0.0.1:{tcpport}", want: "neither a name nor an IP address"},
	{name: "an address in hexadecimal", try: "connect 0x7f.1:{tcpport}", want: "neither a name nor an IP address"},
	{name: "an address as one number", try: "connect 2130706433:{tcpport}", want: "neither a name nor an IP address"},
	{name: "an address in two parts", try: "connect 127.1:{tcpport}", want: "neither a name nor an IP address"},
	{name: "an address with a zone", try: "connect [fe80::1%25eth0]:{tcpport}", want: "40"},
	{name: "IPv4 within IPv6", try: "connect [::ffff:169.254.169.254]:80", want: noRule + "169.254.169.254"},
	{name: "IPv4 by NAT64", try: "connect [64:ff9b::a9fe:a9fe]:80", want: noRule},
	{name: "no address", try: "connect 0.0.0.0:{tcpport}", want: noRule + "0.0.0.0"},
	{name: "the loopback of the far end", try: "connect localhost:{tcpport}", want: noRule + "localhost"},
	{name: "the agent, by the proxy", try: "connect 127.0.0.1:7463", want: noRule + "127.0.0.1"},
	{name: "a name with a part of an allowed one", try: "connect plain.test.evil.test:80", want: noRule},
	{name: "a name with a NUL", try: ofRequest(`CONNECT evil.test\x00.plain.test:80 HTTP/1.1\r\nHost: plain.test\r\n`), want: noHost},
	{name: "a user in front of the host", try: ofRequest(`CONNECT plain.test@evil.test:443 HTTP/1.1\r\nHost: plain.test\r\n`), want: "40"},

	{name: "SNI of another host", try: "tls secure.test:{secureport} sni.evil.test secure.test", want: "access denied"},
	{name: "no SNI", try: "tls secure.test:{secureport} - secure.test", want: "access denied"},
	{name: "SNI of another host, where TLS is opened", try: "tls opened.test:{secureport} secure.test opened.test", want: "access denied"},
	{name: "fronting in TLS that is not opened", try: "tls secure.test:{secureport} secure.test evil.test", want: "200", all: fronting},
	{name: "fronting in HTTP/2 that is not opened", try: "tls secure.test:{secureport} secure.test evil.test h2", want: "200", all: fronting},
	{name: "fronting in opened TLS", try: "tls opened.test:{secureport} opened.test evil.test", want: "421"},
	{name: "fronting in opened HTTP/2", try: "tls opened.test:{secureport} opened.test evil.test h2", want: "421"},
	{name: "another host of plain HTTP by CONNECT", try: "tls plain.test:{plainport} - evil.test none", want: "200", all: "So can a server of plain HTTP through CONNECT or SOCKS5"},
	{
		name: "another Host in a plain request", want: "for plain.test",
		try: ofRequest(`GET http://plain.test:{plainport}/ HTTP/1.1\r\nHost: evil.test\r\n`),
	},
	{
		name: "an upgrade to HTTP/2", want: "for plain.test",
		try: `say GET http://plain.test:{plainport}/ HTTP/1.1\r\nHost: plain.test\r\nConnection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nX-Try: NAME\r\n\r\n`,
	},
	{
		name: "an upgrade to TLS", want: "for plain.test",
		try: `say GET http://plain.test:{plainport}/ HTTP/1.1\r\nHost: plain.test\r\nConnection: close, Upgrade\r\nUpgrade: TLS/1.2\r\nX-Try: NAME\r\n\r\n`,
	},
	{name: "HTTP/2 to the proxy", try: `say PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`, want: "HTTP/1.1 "},

	{name: "SOCKS5 to a name", try: ofSOCKS(`\x01\x00\x03\x09evil.test\x01\xbb`), want: "05 00 05 02"},
	{name: "SOCKS5 to an address", try: ofSOCKS(`\x01\x00\x01\xa9\xfe\xa9\xfe\x00\x50`), want: "05 00 05 02"},
	{name: "SOCKS5 to an address of IPv6", try: ofSOCKS(`\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xa9\xfe\xa9\xfe\x00\x50`), want: "05 00 05 02"},
	{name: "SOCKS5 to an address that is written as a name", try: ofSOCKS(`\x01\x00\x03\x0a2130706433\x00\x50`), want: "05 00 05 02"},
	{name: "UDP by SOCKS5", try: ofSOCKS(`\x03\x00\x01\x00\x00\x00\x00\x00\x00`), want: "05 00 05 07"},
	{name: "listening by SOCKS5", try: ofSOCKS(`\x02\x00\x01\x00\x00\x00\x00\x1f\x40`), want: "05 00 05 07"},
	{name: "SOCKS5 with a password alone", try: `say \x05\x01\x02`, want: "05 ff"},
	{name: "SOCKS4", try: `say \x04\x01\x00\x50\xa9\xfe\xa9\xfe\x00`, want: "00 5b"},
}
