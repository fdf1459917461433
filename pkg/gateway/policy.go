package gateway

// Policy is what a tenant may do. The zero value allows everything.
type Policy struct {
	Quota Quota `json:"quota"`
}

// Quota bounds what a tenant has at a time. Zero is no bound.
type Quota struct {
	Sandboxes int `json:"sandboxes"` // how many there are, paused ones too
}
