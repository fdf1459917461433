package audit

// SetLimit sets how large a file becomes, in bytes.
func (l *Log) SetLimit(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = n
}
