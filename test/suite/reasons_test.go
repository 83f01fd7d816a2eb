package suite

// The reasons for which a sandbox is retired, as its annotation says them.
const (
	surplus  = "surplus"
	outdated = "outdated"
	stuck    = "stuck"
)
