use attention_kernels::*;
use std::time::Instant;
fn main() {
    for (b,q,k,d) in [(8usize,128usize,128usize,256usize),(64,1,64,256),(128,1,32,256),(1,512,512,256)] {
    let mut seed = 1u64;
    let mut rnd = |n: usize| -> Vec<f32> { (0..n).map(|_| { seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); ((seed>>40) as f32/(1u64<<24) as f32-0.5)*2.0 }).collect() };
    let (qs,ks,w)=(rnd(b*q*d),rnd(b*k*d),rnd(d));
    let mut out=vec![0f32;b*q*k];
    let p=AdditiveScore{queries:Rows::contiguous(&qs,[b,1,q,d]),keys:Rows::contiguous(&ks,[b,1,k,d]),weight:&w,mask:Mask::none()};
    for level in Level::available() {
        let mut best=f64::MAX;
        for _ in 0..30 { let t=Instant::now(); p.forward(level,&mut out); best=best.min(t.elapsed().as_secs_f64()); }
        let mut e=0f64;
        for (i,j) in [(0,0),(q-1,k-1),(q/2,k/3)] { let r:f64=(0..d).map(|u| w[u] as f64*((qs[((b-1)*q+i)*d+u]+ks[((b-1)*k+j)*d+u]) as f64).tanh()).sum(); e=e.max((r-out[((b-1)*q+i)*k+j] as f64).abs()); }
        let g=rnd(b*q*k); let (mut gq,mut gk,mut gw)=(vec![0f32;b*q*d],vec![0f32;b*k*d],vec![0f32;d]);
        let mut bb=f64::MAX;
        for _ in 0..30 { let t=Instant::now(); p.backward(level,&g,AdditiveGradients{queries:&mut gq,keys:&mut gk,weight:&mut gw}); bb=bb.min(t.elapsed().as_secs_f64()); }
        print!("bwd {:.3} ms ", bb*1e3);
        println!("{:?} {:?} {:.3} ms {:.2} Gel/s err {e:.1e}",(b,q,k,d),level.name(),best*1e3,(b*q*k*d) as f64/best/1e9);
    }}
}
