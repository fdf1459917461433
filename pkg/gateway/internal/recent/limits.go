package recent

// The bounds of what is kept, in bytes: of all tenants, of one, and what a page, or a value of a list, takes
// besides what it has. So a page's list of 64 KiB has a few hundred values at most.
const (
	mostOfAll    = 64 << 20
	mostOfTenant = 8 << 20
	pageSize     = 1 << 10
	valueSize    = 256
)
