package documented

// unsignedSchema is an unsigned 32-bit number.
var unsignedSchema = &Schema{Kind: IntegerKind, zero: `0`, Format: "uint32"}

// dkgNetworkSchema is a round of key generation. Members that a round does not have yet are absent.
var dkgNetworkSchema = objectOf(
	Field{"round", unsignedSchema, Required, "Number of the round."},
	Field{"stage", integerSchema, Required, "1 registration, 2 dealing, 3 finalization, 4 active, 5 failed."},
	Field{"total", unsignedSchema, Required, "Number of validators in the committee."},
	Field{"threshold", unsignedSchema, Required, "Number of partial decryptions that make a whole one."},
	Field{"is_resharing", booleanSchema, Required, "Whether the previous committee hands over its key."},
	Field{"start_block_height", amountSchema, Extra, "The block at which the round began."},
	Field{"start_block_hash", textSchema, Extra, "The hash of that block, in base64."},
	Field{"active_val_set", listOf(textSchema), Extra, "Addresses of the validators of the committee."},
	Field{"global_public_key", textSchema, Extra, "The public key of the committee, in base64."},
	Field{"public_coeffs", listOf(textSchema), Extra, "Coefficients of the public polynomial, in base64."},
	Field{"is_upgrade", booleanSchema, Extra, "Whether the round changes to another enclave. Absent means false."},
).named("DKGNetwork", "A round of distributed key generation.")

var dkgRegistrationSchema = objectOf(
	Field{"round", unsignedSchema, Required, "Number of the round."},
	Field{"validator_addr", textSchema, Mandatory, "Address of the validator."},
	Field{"index", unsignedSchema, Required, "Index in the committee."},
	Field{"dkg_pub_key", textSchema, Required, "The key it deals with, in base64."},
	Field{"comm_pub_key", textSchema, Required, "The key it signs partial decryptions with, in base64."},
	Field{"enclave_report", textSchema, Required, "Attestation of its enclave, in base64."},
	Field{"status", integerSchema, Required, "1 verified, 2 finalized, 3 invalidated."},
	Field{"code_commitment", textSchema, Required, "Measurement of its enclave's code, in base64."},
	Field{"enclave_type", textSchema, Required, "The kind of enclave, in base64."},
	Field{"pub_key_share", textSchema, Extra, "Its share of the public key, in base64. Absent until it is finalized."},
).named("DKGRegistration", "A validator that takes part in a round of distributed key generation.")

var cdrPartialSchema = objectOf(
	Field{"validator", textSchema, Required, "Address of the validator."},
	Field{"round", unsignedSchema, Required, "Number of the round."},
	Field{"pid", unsignedSchema, Required, "Index in the committee."},
	Field{"encrypted_partial", textSchema, Required, "The partial decryption, encrypted for the requester, in base64."},
	Field{"ephemeral_pub_key", textSchema, Required, "The key it is encrypted with, in base64."},
	Field{"pub_share", textSchema, Required, "The validator's share of the public key, in base64."},
	Field{"label", textSchema, Required, "The number of the vault as 32 bytes, in base64."},
	Field{"ciphertext", textSchema, Required, "The ciphertext, in base64."},
).named("CDRPartial", "A partial decryption by one validator.")

// What msg is on the paths of /dkg.
var (
	DKGNetwork       = objectOf(Field{"network", dkgNetworkSchema, Mandatory, "The round."})
	DKGPublicKey     = objectOf(Field{"public_key", textSchema, Mandatory, "The key, in hex without `0x`."})
	DKGRegistrations = objectOf(Field{"registrations", listOf(dkgRegistrationSchema), Required, "The registrations."})
	CDRPartials      = objectOf(Field{"submissions", listOf(objectOf(
		Field{"round", unsignedSchema, Required, "Number of the round."},
		Field{"submissions", listOf(cdrPartialSchema), Required, "The partial decryptions."},
		Field{"ciphertext", textSchema, Required, "The ciphertext, in base64."},
		Field{"threshold", unsignedSchema, Required, "Number of partial decryptions that make a whole one."},
		Field{"threshold_met", booleanSchema, Required, "Whether the threshold is met."},
	).named("CDRPartials", "The partial decryptions of one ciphertext in one round.")), Required, "The groups."})
)
