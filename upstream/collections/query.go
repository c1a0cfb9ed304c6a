package collections

// OrderBy is the column by which a page is ordered.
type OrderBy int

// The columns, in the order of the documented API.
const (
	UpdatedAt OrderBy = iota
	AssetCount
	LicensesCount
)

// OrderNames are the names of the columns in the documented API.
var OrderNames = [...]string{UpdatedAt: "updatedAt", AssetCount: "assetCount", LicensesCount: "licensesCount"}

// Bounds and defaults of a Query, from the documented API.
const (
	DefaultLimit = 20
	MaxLimit     = 200
)

// A Query selects one page. The zero value selects the DefaultLimit least recently updated collections. Collections with equal
// values are ordered by ascending lower-case address in both directions, so that pages neither overlap nor skip.
type Query struct {
	OrderBy OrderBy
	Desc    bool // descending order
	Limit   int  // 1 to MaxLimit; 0 means DefaultLimit
	Offset  int  // number of collections to skip, at least 0

	// Addresses selects the collections at these valid addresses. Their case does not matter, and unknown ones are ignored.
	// Empty selects all.
	Addresses []string

	MinAssets, MaxAssets *int64 // inclusive bounds of AssetCount; nil means no bound
}

// A ListRequest is the documented request for a page. Its tags define the schema for validation and for the published document.
type ListRequest struct {
	OrderBy        string      `json:"orderBy,omitempty" enum:"updatedAt,assetCount,licensesCount" default:"updatedAt" doc:"Field by which the collections are ordered."`
	OrderDirection string      `json:"orderDirection,omitempty" enum:"asc,desc" default:"desc" doc:"desc returns the most recent or the largest first."`
	Pagination     ListWindow  `json:"pagination,omitzero"`
	Where          ListFilters `json:"where,omitzero"`
}

// A ListWindow selects a page of a ListRequest.
type ListWindow struct {
	Limit  int `json:"limit,omitempty" minimum:"1" maximum:"200" default:"20" doc:"Maximum number of collections on the page."`
	Offset int `json:"offset" required:"false" minimum:"0" default:"0" doc:"Number of collections to skip."`
}

// ListFilters select the collections of a ListRequest.
type ListFilters struct {
	Addresses []string `json:"collectionAddresses,omitempty" maxItems:"200" nullable:"true" doc:"Only collections with these addresses, in any case. Unknown addresses are ignored."`
	MaxAssets *int64   `json:"maxAssetCount,omitempty" minimum:"0" doc:"Only collections with at most this number of assets."`
	MinAssets *int64   `json:"minAssetCount,omitempty" minimum:"0" doc:"Only collections with at least this number of assets."`
}

// A Page is the answer to a Query.
type Page struct {
	Items []Collection // never nil
	Total int64        // number of matching collections on all pages

	// The state of the store that the items are from, as in Mark. Zero if another server fills the store.
	Generation int64
	Revision   string
	Block      int64
}

// Ranged reports whether the query limits the asset count.
func (q Query) Ranged() bool { return q.MinAssets != nil || q.MaxAssets != nil }
