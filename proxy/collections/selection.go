package collections

import "github.com/tipcache/tipcache/cache"

// Select selects the keys of all listings.
func Select() cache.Selection { return cache.Selection{Prefix: keyPrefix} }
