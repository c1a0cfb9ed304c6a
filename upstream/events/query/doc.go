// Package query parses the queries of CometBFT's event subscriptions and matches events against them.
//
// A query is one or more conditions joined by AND. A condition is a tag with EXISTS, or with an operator and a value:
//
//	= < <= > >=    a number, TIME with a time, DATE with a date; = also accepts a 'text'
//	CONTAINS       a 'text'
//
// A condition matches if any value of its tag does, so different values can match two conditions on the
// same tag. The errors equal CometBFT 0.38's word for word.
package query
