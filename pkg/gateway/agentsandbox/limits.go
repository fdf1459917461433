package agentsandbox

import "time"

// The bounds of the face, each with its reason.
const (
	// executeTime is how long a command of execute may run, as in the Python runtime.
	executeTime = 300 * time.Second
	// executeOutput is how much output an answer of execute has, in bytes of JSON: clients take 16 MiB.
	executeOutput = 16<<20 - 1<<10
	// messageOutput is how much output an answer of Execute has, in bytes: clients of gRPC take messages of
	// 4 MiB unless told otherwise.
	messageOutput = 4<<20 - 1<<10
	// bodyLimit is how large the body of execute may be, in bytes.
	bodyLimit = 1 << 20
	// wordsLimit is how many arguments and variables a command may have: more than Linux takes.
	wordsLimit = 1 << 16
	// listLimit is how large a list of a directory may be, in bytes: clients take 8 MiB. An entry takes
	// entrySize beside its name.
	listLimit = 8<<20 - 1<<10
	entrySize = 128
	// partLimit is how much a form may have beside its file, in bytes.
	partLimit = 64 << 10
	// looksAtOnce is how many links of a directory are looked at at once.
	looksAtOnce = 16
	// removedAtOnce is how many entries of a directory are listed before they are removed, and others are.
	removedAtOnce = 1024
	// chunkLimit is how much output a message of a stream has, in bytes: it leaves room for others.
	chunkLimit = 256 << 10
	// healthTime is how long a look at a sandbox's health may take: who asks has little time.
	healthTime = 5 * time.Second
	// statusText is how much of an error's text a status of gRPC has, in bytes: many clients take trailers of
	// 8 KiB.
	statusText = 1 << 10
	// messageSilence is how long the message of a call of gRPC may take to come.
	messageSilence = time.Minute
	// envsLimit is how much environment a sandbox may have, in bytes: more than Linux takes in one text.
	envsLimit = 1 << 20
	// longestTimeout bounds X-Sandbox-Timeout, in seconds: a day, after which no client waits.
	longestTimeout = 86400
)
