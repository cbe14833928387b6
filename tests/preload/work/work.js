// SPDX-License-Identifier: MIT
//
// Four threads hold buffers, while the pool of threads packs the same text at
// three levels.

const { Worker, isMainThread, parentPort, workerData } =
	require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');

function work({ n, scale }) {
	const held = [];
	let sum = 0;

	for (let i = 0; i < 3000 * scale; i++) {
		held[i * 31 % 700] =
			Buffer.alloc(5000 + i * 7919 % 30000, i & 255);
		const other = held[i * 7 % 700];
		sum += other ? other.length + other[n] : n;
	}
	return sum;
}

function worker(data) {
	return new Promise((done, fail) =>
		new Worker(__filename, { workerData: data })
			.on('message', done).on('error', fail));
}

function pack(text, level) {
	return new Promise((done, fail) =>
		zlib.gzip(text, { level }, (error, out) =>
			error ? fail(error) : done(out)));
}

async function main(scale) {
	const text = Buffer.from(Array.from({ length: 200000 * scale },
		(_, i) => i * i % 10007).join(' '));
	const sums = Promise.all([1, 2, 3, 4].map((n) => worker({ n, scale })));
	const packs = await Promise.all([1, 6, 9].map((l) => pack(text, l)));

	if (!packs.every((out) => zlib.gunzipSync(out).equals(text)))
		process.exit(1);
	console.log(await sums, packs.map((out) => out.length),
		crypto.createHash('sha256').update(text).digest('hex'));
}

if (isMainThread)
	main(Number(process.argv[2]));
else
	parentPort.postMessage(work(workerData));
