// Package podapiv1 is the generated code of podapi.proto, and tells apart its
// messages that carry content ([Content]).
package podapiv1

// Content is a message that may consist of only a chunk of content, in its field 1.
// Such messages are coded without reflection, and into buffers that are reused.
type Content interface {
	// Chunk returns the chunk; nil if the message is something else.
	Chunk() *[]byte
	// MakeChunk makes the message a chunk that gets so many bytes, and keeps its earlier buffer.
	MakeChunk(size int) *[]byte
}

var (
	_ Content = (*ReadResponse)(nil)
	_ Content = (*WriteRequest)(nil)
	_ Content = (*PushRequest)(nil)
	_ Content = (*PullResponse)(nil)
	_ Content = (*DialRequest)(nil)
	_ Content = (*DialResponse)(nil)
)

// Chunk implements [Content].
func (m *ReadResponse) Chunk() *[]byte {
	if k, ok := m.Kind.(*ReadResponse_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content].
func (m *ReadResponse) MakeChunk(int) *[]byte {
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
func (m *WriteRequest) MakeChunk(int) *[]byte {
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
func (m *PushRequest) MakeChunk(int) *[]byte {
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
func (m *PullResponse) MakeChunk(int) *[]byte {
	if m.Chunk() == nil {
		m.Kind = &PullResponse_Data{}
	}
	return m.Chunk()
}

// Chunk implements [Content].
func (m *DialRequest) Chunk() *[]byte {
	if k, ok := m.Kind.(*DialRequest_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content]. The buffer is new, and the receiver of the
// message gives it to FreeDialBuffer: a connection may be idle for long, and holds
// no buffer meanwhile.
func (m *DialRequest) MakeChunk(size int) *[]byte {
	m.Kind = &DialRequest_Data{Data: NewDialBuffer(size)}
	return m.Chunk()
}

// Chunk implements [Content].
func (m *DialResponse) Chunk() *[]byte {
	if k, ok := m.Kind.(*DialResponse_Data); ok {
		return &k.Data
	}
	return nil
}

// MakeChunk implements [Content], like that of DialRequest.
func (m *DialResponse) MakeChunk(size int) *[]byte {
	m.Kind = &DialResponse_Data{Data: NewDialBuffer(size)}
	return m.Chunk()
}
