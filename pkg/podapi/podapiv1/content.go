// Package podapiv1 is the generated code of podapi.proto, and how its messages
// that carry content are told apart ([Content]).
package podapiv1

// Content is a message that may be nothing but a chunk of content, in its
// field 1. Such messages are coded without going through reflection, and into
// buffers that are used again.
type Content interface {
	// Chunk returns the chunk, nil if the message is something else.
	Chunk() *[]byte
	// MakeChunk makes the message a chunk, whose earlier buffer is kept.
	MakeChunk() *[]byte
}

var (
	_ Content = (*ReadResponse)(nil)
	_ Content = (*WriteRequest)(nil)
	_ Content = (*PushRequest)(nil)
	_ Content = (*PullResponse)(nil)
)

// Chunk implements [Content].
func (m *ReadResponse) Chunk() *[]byte {
	if k, ok := m.Kind.(*ReadResponse_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content].
func (m *ReadResponse) MakeChunk() *[]byte {
	if m.Chunk() == nil {
		m.Kind = &ReadResponse_Data{}
	}
	return m.Chunk()
}

// Chunk implements [Content].
func (m *WriteRequest) Chunk() *[]byte {
	if k, ok := m.Kind.(*WriteRequest_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content].
func (m *WriteRequest) MakeChunk() *[]byte {
	if m.Chunk() == nil {
		m.Kind = &WriteRequest_Data{}
	}
	return m.Chunk()
}

// Chunk implements [Content].
func (m *PushRequest) Chunk() *[]byte {
	if k, ok := m.Kind.(*PushRequest_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content].
func (m *PushRequest) MakeChunk() *[]byte {
	if m.Chunk() == nil {
		m.Kind = &PushRequest_Data{}
	}
	return m.Chunk()
}

// Chunk implements [Content].
func (m *PullResponse) Chunk() *[]byte {
	if k, ok := m.Kind.(*PullResponse_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content].
func (m *PullResponse) MakeChunk() *[]byte {
	if m.Chunk() == nil {
		m.Kind = &PullResponse_Data{}
	}
	return m.Chunk()
}
