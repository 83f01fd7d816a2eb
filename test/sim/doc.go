// Package sim is an API server in memory: fast enough for runs of a hundred thousand
// claims, and faithful in what Kiln rests on.
//
//	s, err := sim.New()
//	server := httptest.NewServer(s)
//
// It serves the kinds that Kiln and its tests use, and of them: one rising
// resourceVersion; lists and watches with selectors, of whole objects or of their
// metadata, resumed without a gap or refused as expired; guarded writes; graceful
// deletion and finalizers; generations; and server-side apply, which is apimachinery's
// own, over client-go's schemas and those of the CRDs. A test holds it against the real
// server.
//
// It does not authenticate, authorize, admit or validate, and it fills in the defaults of
// Kiln's kinds alone. It answers in JSON. Events are kept until there are too many, not
// for a time.
package sim
