package upstream

import "time"

// A Debit charges a token bucket, which a cache's replicas share, for requests.
type Debit struct {
	Key  string        // of the bucket, which expires when it is full
	Cost time.Duration // time in which the requests are refilled
	Age  time.Duration // since the first of them
	Most time.Duration // the bucket becomes full within this time; a stored value beyond it is ignored
	Asks bool          // the requests are only charged if the bucket then becomes full within Most

	Done      bool // Redis carried out the debit
	Refused   bool // the requests were not charged
	UntilFull time.Duration
}
