# SPDX-License-Identifier: Apache-2.0
# pki.sh - authorities and certificates for tests, by the openssl command. Source it.
#   pki_authority DIR             a new authority: DIR/ca.crt
#   pki_issue DIR NAME USE [FROM TO [NAMES]]   NAME.crt and NAME.key below DIR; USE: clientAuth or serverAuth; FROM and TO: what
#                                 date(1) understands (default: an hour ago, in a day); NAMES: of DNS (default: NAME)
#   pki_revoke DIR NAME           DIR/ca.crl then has it; pki_crl DIR: a list as it is
pki_date() { date -u -d "$1" +%Y%m%d%H%M%SZ; }
pki_authority() {
	mkdir -p "$1/issued"
	: >"$1/index"
	echo 01 >"$1/serial"
	echo 01 >"$1/crlnumber"
	cat >"$1/conf" <<-CONF
		[ca]
		default_ca = this
		[this]
		new_certs_dir = $1/issued
		database = $1/index
		serial = $1/serial
		crlnumber = $1/crlnumber
		certificate = $1/ca.crt
		private_key = $1/ca.key
		default_md = sha256
		default_crl_days = 1
		unique_subject = no
		copy_extensions = copy
		policy = any
		[any]
		commonName = supplied
		[req]
		distinguished_name = any_name
		[any_name]
	CONF
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=authority ${1##*/}" \
		-addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign \
		-keyout "$1/ca.key" -out "$1/ca.crt" 2>"$1/log"
}
pki_issue() {
	local dir=$1 name=$2 use=$3 from=${4:--1 hour} to=${5:-+1 day}
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" \
		-addext "subjectAltName=DNS:${6:-$name}" -addext "extendedKeyUsage=$use" \
		-keyout "$dir/$name.key" -out "$dir/$name.csr" 2>>"$dir/log" &&
		openssl ca -batch -notext -config "$dir/conf" -in "$dir/$name.csr" -out "$dir/$name.crt" \
			-startdate "$(pki_date "$from")" -enddate "$(pki_date "$to")" 2>>"$dir/log"
}
pki_crl() { openssl ca -config "$1/conf" -gencrl -out "$1/ca.crl.new" 2>>"$1/log" && mv "$1/ca.crl.new" "$1/ca.crl"; }
pki_revoke() { openssl ca -config "$1/conf" -revoke "$1/$2.crt" 2>>"$1/log" && pki_crl "$1"; }
