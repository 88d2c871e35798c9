// Encodes and decodes ISO 8583 messages with jspos. One request a line on stdin, one result a line on stdout.
//
// The first line is the list of profiles: {name: {text, digits, bytes, bitmap, fields: [[number, kind, size, prefix]]}}.
// Others are ["encode", profile, mti, {number: value}] or ["decode", profile, hexadecimal].
"use strict";

const readline = require("readline");
const codepage = require("codepage");
const jspos = require("jspos");
const load = (name) => require(`jspos/lib/${name}`).default;
const AsciiInterpreter = load("AsciiInterpreter");
const AsciiPrefixer = load("AsciiPrefixer");
const BCDInterpreter = load("BCDInterpreter");
const BcdPrefixer = load("BcdPrefixer");
const LiteralBinaryInterpreter = load("LiteralBinaryInterpreter");
const NullPadder = load("NullPadder");
const NullPrefixer = load("NullPrefixer");
const { IFA_BITMAP, IFB_BITMAP, ISOBinaryFieldPackager, ISOStringFieldPackager } = jspos.packer;

const EBCDIC = 37;

const ebcdicInterpreter = {
  interpret(text, bytes, offset) {
    codepage.utils.encode(EBCDIC, text).forEach((byte, at) => { bytes[offset + at] = byte; });
  },
  uninterpret(bytes, offset, length) {
    return codepage.utils.decode(EBCDIC, Buffer.from(bytes.slice(offset, offset + length)));
  },
  getPackedLength: (units) => units,
};

class EbcdicPrefixer extends AsciiPrefixer {
  encodeLength(length, bytes) {
    super.encodeLength(length, bytes);
    for (let at = 0; at < this.nDigits; at += 1) bytes[at] += 0xf0 - 0x30;
  }

  decodeLength(bytes, offset) {
    return super.decodeLength(bytes.slice(offset, offset + this.nDigits).map((byte) => byte - 0xf0 + 0x30), 0);
  }
}

function prefixer(profile, digits) {
  if (digits === 0) return NullPrefixer;
  if (profile.digits === "bcd") return new BcdPrefixer(digits);
  return profile.text === "ebcdic" ? new EbcdicPrefixer(digits) : new AsciiPrefixer(digits);
}

function fieldPackager(profile, kind, size, prefix) {
  if (kind === "bytes" && profile.bytes === "raw") {
    return new ISOBinaryFieldPackager(size, "", LiteralBinaryInterpreter, prefixer(profile, prefix));
  }
  let interpreter = profile.text === "ebcdic" ? ebcdicInterpreter : AsciiInterpreter;
  if (kind === "digits" && profile.digits === "bcd") interpreter = BCDInterpreter.LEFT_PADDED;
  return new ISOStringFieldPackager(size, "", NullPadder, interpreter, prefixer(profile, prefix));
}

function packager(profile) {
  const fields = [fieldPackager(profile, "digits", 4, 0)];
  fields[1] = profile.bitmap === "raw" ? new IFB_BITMAP(16, "") : new IFA_BITMAP(16, "");
  profile.fields.forEach(([number, kind, size, prefix]) => {
    fields[number] = fieldPackager(profile, kind, size, prefix);
  });
  const made = new jspos.ISOBasePackager();
  made.setFieldPackager(fields);
  return { made, raw: new Set(profile.bytes === "raw" ? profile.fields.filter((f) => f[1] === "bytes").map((f) => f[0]) : []) };
}

function encode({ made }, mti, values) {
  const message = made.createISOMsg();
  message.setPackager(made);
  message.setMTI(mti);
  Object.entries(values).forEach(([number, value]) => {
    message.setField(Number(number), value);
  });
  return Buffer.from(message.pack()).toString("hex");
}

function decode({ made, raw }, hexadecimal) {
  const message = made.createISOMsg();
  message.setPackager(made);
  message.unpack(Array.from(Buffer.from(hexadecimal, "hex")));
  const values = {};
  Object.values(message.getChildren()).forEach((child) => {
    const number = child.getKey();
    if (number > 0) {
      const value = child.getValue();
      values[number] = raw.has(number) ? Buffer.from(value).toString("hex").toUpperCase() : value;
    }
  });
  return { mti: message.getMTI(), fields: values };
}

let packagers = null;
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  if (packagers === null) {
    packagers = Object.fromEntries(Object.entries(request).map(([name, profile]) => [name, packager(profile)]));
    return;
  }
  const [operation, name, ...rest] = request;
  const result = (operation === "encode" ? encode : decode)(packagers[name], ...rest);
  process.stdout.write(`${JSON.stringify(result)}\n`);
});
