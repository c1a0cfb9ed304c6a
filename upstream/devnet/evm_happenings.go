package devnet

// A kind is something that can happen to an asset.
type kind int

const (
	registered kind = iota
	licensed
	disputed
	judged
	cancelled
	resolved
	tagged // as one that derives from an infringer: a dispute that no account raised
)

// A happening is one transaction that concerns an asset.
type happening struct {
	asset
	kind    kind
	block   int64
	minting int   // which of the asset, for licensed
	dispute int64 // identifier, for all that is about one
	upheld  bool  // for judged
}

// How many blocks after its registration an asset is licensed for the last time,
// and how many after it the last dispute is over.
const (
	licensedFor = 255
	disputedFor = raisedAfter + 4*256
)

// follow is what happens to an asset, the cause before what comes of it.
func (l ledger) follow(a asset) []happening {
	at := assetBlock(a.number)
	all := []happening{{asset: a, kind: registered, block: at}}
	for i := range mintings[a.digest[16]%8] {
		all = append(all, happening{asset: a, kind: licensed, block: at + int64(a.digest[17+i]), minting: i})
	}
	if isDisputed(a.number) {
		all = append(all, l.dispute(a)...)
	}
	return all
}

// mintings is how often licenses are minted for an asset, in eight cases.
var mintings = [8]int{0, 0, 0, 0, 1, 1, 1, 2}

// amount is what a happening adds to its counter: one, or up to seven licenses.
func (h happening) amount() int64 {
	if h.kind != licensed {
		return 1
	}
	return 1 + int64(h.digest[20+h.minting]%7)
}

const (
	assetsPerDispute = 100 // registrations for every dispute
	firstDisputed    = 20  // the number of the first asset that is disputed
	raisedAfter      = 40  // blocks; always as many, so that identifiers rise
)

func isDisputed(number int64) bool { return number%assetsPerDispute == firstDisputed }

// A sequel is what may come of a dispute.
type sequel struct {
	kind    kind
	derived bool // happens to the asset that derives from the disputed one
}

// fates are the ways that disputes go, in turn.
var fates = [...][]sequel{
	{{kind: judged}, {tagged, true}, {kind: resolved}, {resolved, true}},
	{},
	{{kind: cancelled}},
	{{kind: judged}},
	{{kind: judged}, {kind: resolved}},
	{{kind: cancelled}},
	{{kind: judged}, {tagged, true}},
	{{kind: judged}},
}

// dispute is the dispute about an asset. It has two identifiers: one for itself,
// one for that of the asset registered just before, which derives from it.
func (l ledger) dispute(a asset) []happening {
	turn := a.number / assetsPerDispute
	h := happening{asset: a, kind: disputed, block: assetBlock(a.number) + raisedAfter, dispute: 2*turn + 1}
	all := []happening{h}
	fate := fates[turn%int64(len(fates))]
	for i, s := range fate {
		h.kind, h.upheld = s.kind, len(fate) > 1
		h.block += 1 + int64(a.digest[24+i])
		next := h
		if s.derived {
			next.asset, next.dispute = l.asset(a.number-1), h.dispute+1
		}
		all = append(all, next)
	}
	return all
}

// disputedBy is the number of the asset that a dispute began with. It need not
// be so many yet.
func disputedBy(dispute int64) int64 {
	return (dispute-1)/2*assetsPerDispute + firstDisputed
}

// isStray tells whether a dispute is about something that is no IP. It counts
// for no collection.
func (h happening) isStray() bool { return h.dispute%32 == 15 }
