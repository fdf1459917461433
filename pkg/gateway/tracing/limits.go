package tracing

import "time"

const (
	// valueLength is how much of a text an attribute has, in characters, unless
	// OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT says otherwise: a path or an argument may be longer.
	valueLength = 1024
	// stateLength is how long a caller's tracestate may be: as much as W3C asks all to pass on.
	stateLength = 512
	// nameLength is how much of what a caller calls itself or its method is kept.
	nameLength = 256
	// handshakeTime bounds the preparation of the exporter, which connects later.
	handshakeTime = 5 * time.Second
)
